package scrub

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/templates"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

func containerdConfigRules() []Rule {
	return []Rule{
		{
			ID: "containerd-config", Phase: Restored, Groups: []string{"bootstrap", "containerd"}, Verb: plan.Remove,
			Paths: []string{"/etc/containerd/config.toml"}, Owner: "bootstrap.sh, nodeadm",
			Why:         "containerd would run with the old node's settings; a file that a package installed or a person wrote stays",
			Regenerated: "the bootstrap", Source: "amazon-eks-ami bootstrap.sh, nodeadm",
			Find: generatedContainerdConfig,
		},
	}
}

// generatedContainerdConfig removes /etc/containerd/config.toml if a first boot
// wrote it or copied it from the template. A file that the manifest records is
// restored. A file that a package installed or a person wrote stays.
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
	rendered, err := isNodeadmsContainerd(h, current)
	if err != nil {
		return plan.Answer{}, err
	}
	if !rendered && !isInits(current) {
		copied, err := copiedFromTemplate(h, current)
		if err != nil || !copied {
			return plan.Answer{}, err
		}
		if comesBack, err := copiesTemplate(h); err != nil || !comesBack {
			return plan.Finds(name, "pulls the pause image from the registry of the build's region, and no bootstrap on this machine writes the file again: name the pause image of the new node's region, or remove the file"), err
		}
	}
	return planPath(h, plan.Remove, name, "first boot wrote it")
}

// copiedFromTemplate reports whether a configuration of containerd is the
// filled-in template. The template may be that of the image or an edited one,
// and the pause image that of a region or of the image.
func copiedFromTemplate(h *host.Host, current []byte) (bool, error) {
	tmpl, err := templateOf(h, templates.ContainerdConfig)
	if err != nil {
		return false, err
	}
	if tmpl == nil {
		return isKnownContainerdConfig(current), nil
	}
	edited, err := h.Content(templates.ContainerdConfig)
	if err != nil {
		return false, err
	}
	back, err := reverseContainerdConfig(current, tmpl.Content)
	if err != nil {
		return false, nil // not from a bootstrap: no sandbox image
	}
	if !bytes.Equal(back.Content, current) {
		return true, nil // had the pause image of a region
	}
	plain := withoutPause(current)
	return equivalent(plain, withoutPause(tmpl.Content)) || edited != nil && equivalent(plain, withoutPause(edited)), nil
}

// copiesTemplate reports whether a bootstrap on this machine copies a template
// to containerd's configuration: the script or the template is there.
func copiesTemplate(h *host.Host) (bool, error) {
	script, err := bootstrapScript(h)
	if err != nil || script != "" {
		return err == nil, err
	}
	return h.Exists(templates.ContainerdConfig)
}

// isKnownContainerdConfig reports whether a configuration of containerd is a
// filled-in template of Amazon Linux 2.
func isKnownContainerdConfig(current []byte) bool {
	for _, t := range templates.All() {
		if t.Path == templates.ContainerdConfig {
			return isKnown(t, current)
		}
	}
	return false
}

// withoutPause replaces every pause image with the placeholder SANDBOX_IMAGE.
func withoutPause(text []byte) []byte {
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		if m := sandboxLine().FindStringSubmatch(line); m != nil {
			lines[i] = m[1] + m[2] + sandboxPlaceholder + m[4] + m[5]
		}
	}
	return []byte(strings.Join(lines, "\n"))
}

// credentialProviderRules has the rule for the kubelet's list of registries.
func credentialProviderRules() []Rule {
	return []Rule{
		{
			ID: "credential-provider-config", Phase: Restored, Groups: []string{"bootstrap", "kubelet", "templates"}, Verb: plan.Restore,
			Paths: []string{credentialProviderConfig}, Owner: "eksnode init, nodeadm",
			Why:         "the kubelet would use the registry list of another version; a file that names registries other than ECR stays, because a person wrote it",
			Regenerated: "first boot", Source: "amazon-eks-ami nodeadm",
			Find: credentialProvider,
		},
	}
}

const credentialProviderConfig = "/etc/eks/image-credential-provider/config.json"

// scriptInstalls reports whether the image has the list for a bootstrap.sh, which
// does not write the list itself.
func scriptInstalls(h *host.Host) (bool, error) {
	supported, err := contractOf(h)
	if err != nil || supported != knownTemplate {
		return supported == withScript, err
	}
	// A manifest names every template that the image had.
	m, err := manifest.Load(h)
	return m == nil, err
}

// credentialProvider restores the image's own list of registries if a first
// boot wrote another. On an image without a recorded list, the rule removes the
// list, unless Amazon Linux 2's bootstrap.sh installed it. A list that a person
// wrote stays.
func credentialProvider(_ context.Context, h *host.Host) (plan.Answer, error) {
	current, err := h.Content(credentialProviderConfig)
	if err != nil {
		return plan.Answer{}, err
	}
	tmpl, err := templateOf(h, credentialProviderConfig)
	if err != nil {
		return plan.Answer{}, err
	}
	switch {
	case tmpl != nil && current == nil:
		return plan.Acts(restoreAction(h, credentialProviderConfig, tmpl.Content, tmpl.Attributes, "the template is missing")), nil
	case current == nil || !namesOnlyECR(current):
		return plan.Answer{}, nil
	case tmpl == nil:
		stays, err := scriptInstalls(h)
		if err != nil || stays {
			return plan.Answer{}, err
		}
		return planPath(h, plan.Remove, credentialProviderConfig, "first boot wrote it")
	case bytes.Equal(current, tmpl.Content):
		return plan.Answer{}, nil
	}
	attr, err := h.Files.Attributes(credentialProviderConfig)
	if err != nil {
		return plan.Answer{}, err
	}
	return plan.Acts(restoreAction(h, credentialProviderConfig, tmpl.Content, attr, "first boot wrote it")), nil
}

// namesOnlyECR reports whether a CredentialProviderConfig could come from a
// first boot: it has one provider, without arguments or environment, and only
// for ECR.
func namesOnlyECR(text []byte) bool {
	var config struct {
		Providers []struct {
			Name        string   `json:"name"`
			MatchImages []string `json:"matchImages"`
			Args        []string `json:"args"`
			Env         []any    `json:"env"`
		} `json:"providers"`
	}
	if json.Unmarshal(text, &config) != nil || len(config.Providers) != 1 {
		return false
	}
	p := config.Providers[0]
	return p.Name == "ecr-credential-provider" && len(p.Args)+len(p.Env) == 0 && !slices.ContainsFunc(p.MatchImages, func(image string) bool {
		return !strings.HasPrefix(image, "*.dkr.ecr") && !strings.HasPrefix(image, "*.dkr-ecr") && !strings.HasPrefix(image, "public.ecr.") && !strings.HasPrefix(image, "ecr-public.")
	})
}
