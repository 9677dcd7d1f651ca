package scrub

import (
	"bytes"
	"context"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/templates"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// containerdConfigRules holds the row of containerd's own configuration.
func containerdConfigRules() []Rule {
	return []Rule{
		{
			ID: "containerd-config", Phase: Restored, Groups: []string{"bootstrap", "containerd"}, Verb: plan.Remove,
			Paths: []string{"/etc/containerd/config.toml"}, Owner: "bootstrap.sh, nodeadm",
			Why:         "what a first boot wrote, or its filled-in copy of the template; a package's or a person's stays",
			Regenerated: "the bootstrap", Source: "amazon-eks-ami bootstrap.sh, nodeadm",
			Find: generatedContainerdConfig,
		},
	}
}

// generatedContainerdConfig removes /etc/containerd/config.toml when a first
// boot wrote it or copied it from the template. One that the image recorded is
// restored; one that a package or a person put there stays.
func generatedContainerdConfig(ctx context.Context, h *host.Host) (plan.Answer, error) {
	const name = "/etc/containerd/config.toml"
	current, err := h.Content(name)
	if err != nil || current == nil {
		return plan.Answer{}, err
	}
	own, err := templateOf(h, name)
	if err != nil {
		return plan.Answer{}, err
	}
	if own != nil {
		return restore(name, reverseContainerdConfig)(ctx, h)
	}
	if !isInits(current) {
		copied, err := copiedFromTemplate(h, current)
		if err != nil || !copied {
			return plan.Answer{}, err
		}
	}
	return planPath(h, plan.Remove, name, "first boot wrote it")
}

// copiedFromTemplate says whether a configuration of containerd is the template
// filled in: as the image has it or as a user edited it, with a region's pause
// image or with one of the image's own.
func copiedFromTemplate(h *host.Host, current []byte) (bool, error) {
	tmpl, err := templateOf(h, templates.ContainerdConfig)
	if err != nil || tmpl == nil {
		return false, err
	}
	edited, err := h.Content(templates.ContainerdConfig)
	if err != nil {
		return false, err
	}
	back, err := reverseContainerdConfig(current, tmpl.Content)
	if err != nil {
		return false, nil // no bootstrap's file: it names no sandbox image
	}
	if !bytes.Equal(back.Content, current) {
		return true, nil // a region's pause image stood there
	}
	plain := withoutPause(current)
	return equivalent(plain, withoutPause(tmpl.Content)) || edited != nil && equivalent(plain, withoutPause(edited)), nil
}

// withoutPause puts SANDBOX_IMAGE in every pause image's place.
func withoutPause(text []byte) []byte {
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		if m := sandboxLine().FindStringSubmatch(line); m != nil {
			lines[i] = m[1] + m[2] + sandboxPlaceholder + m[4] + m[5]
		}
	}
	return []byte(strings.Join(lines, "\n"))
}
