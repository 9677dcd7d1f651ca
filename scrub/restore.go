package scrub

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/templates"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// templateRules are the rules for templates that a bootstrap fills in.
func templateRules() []Rule {
	g := []string{"bootstrap"}
	return []Rule{
		{
			ID: "kubelet-kubeconfig", Phase: Restored, Groups: append(g, "kubelet", "templates"), Verb: plan.Restore,
			Paths: []string{templates.Kubeconfig}, Owner: "bootstrap.sh, nodeadm",
			Why:         "with the old cluster's endpoint, every node is refused with Unauthorized",
			Regenerated: "the bootstrap, which fills in MASTER_ENDPOINT, CLUSTER_NAME and AWS_REGION", Source: "observed on a captured node: Unauthorized",
			Find: restore(templates.Kubeconfig, reverseKubeconfig),
		},
		{
			ID: "kubelet-config", Phase: Restored, Groups: append(g, "kubelet", "templates"), Verb: plan.Restore,
			Paths: []string{templates.KubeletConfig}, Owner: "bootstrap.sh",
			Why:         "the kubelet would use the provider ID, pod limit and reservations of another instance",
			Regenerated: "the bootstrap", Source: "amazon-eks-ami bootstrap.sh",
			Find: restore(templates.KubeletConfig, reverseKubeletConfig),
		},
		{
			ID: "containerd-template", Phase: Restored, Groups: append(g, "containerd", "templates"), Verb: plan.Restore,
			Paths: []string{templates.ContainerdConfig}, Owner: "bootstrap.sh",
			Why:         "containerd would pull the pause image from the registry of the build's region",
			Regenerated: "the bootstrap", Source: "amazon-eks-ami #938",
			Find: restore(templates.ContainerdConfig, reverseContainerdConfig),
		},
	}
}

// template is the content of a file before any bootstrap.
type template struct {
	host.Attributes
	Content []byte
	// Recorded says that the image's own manifest contains the template, byte
	// for byte. Otherwise it is the built-in template, for images of other
	// origins.
	Recorded bool
	// Guessed says that only another template shows that a bootstrap fills this
	// one in. Missing files stay missing.
	Guessed bool
}

// reversal is a filled-in file turned back into its template.
type reversal struct {
	Content []byte
	// Unknown are values that look filled in but match no known pattern. They
	// are reported, never guessed.
	Unknown []string
}

// reverser replaces values that a bootstrap filled in with placeholders, and
// changes nothing else. The template shows the original values.
type reverser func(current, template []byte) (reversal, error)

// restore plans to turn the file at name back into its template:
//   - missing, empty, or written by `eksnode init`: the template is written, but
//     a missing file stays missing where no script fills it in;
//   - filled in: the placeholders are restored. If the rest equals the template,
//     the template is written byte for byte; otherwise a user's edits stay;
//   - a file of an image without a template comes from a boot, and is removed.
func restore(name string, reverse reverser) func(context.Context, *host.Host) (plan.Answer, error) {
	return func(_ context.Context, h *host.Host) (plan.Answer, error) {
		tmpl, err := templateOf(h, name)
		if err != nil {
			return plan.Answer{}, err
		}
		current, err := h.Content(name)
		if err != nil {
			return plan.Answer{}, err
		}
		switch {
		case current == nil && (tmpl == nil || tmpl.Guessed):
			return plan.Answer{}, nil
		case tmpl == nil:
			return planPath(h, plan.Remove, name, "a boot generated it for the old cluster")
		case len(bytes.TrimSpace(current)) == 0:
			return plan.Acts(restoreAction(h, name, tmpl.Content, tmpl.Attributes, "the template is missing")), nil
		}
		if isInits(current) || name == templates.Kubeconfig && isKubelets(current) {
			attr, err := h.Files.Attributes(name)
			if err != nil {
				return plan.Answer{}, err
			}
			if tmpl.Recorded {
				attr.Mode = tmpl.Attributes.Mode // only root reads what first boot writes
			}
			return plan.Acts(restoreAction(h, name, tmpl.Content, attr, "first boot wrote it")), nil
		}
		return planReversal(h, name, reverse, current, tmpl)
	}
}

// isKubelets reports whether the kubelet wrote a kubeconfig, with its own
// certificate: on an Outpost, bootstrap.sh moves the template to another file.
func isKubelets(kubeconfig []byte) bool {
	return bytes.Contains(kubeconfig, []byte("client-certificate: "+kubeletDir+"/pki/"))
}

func planReversal(h *host.Host, name string, reverse reverser, current []byte, tmpl *template) (plan.Answer, error) {
	if tmpl.Recorded && bytes.Equal(current, tmpl.Content) {
		return plan.Answer{}, nil
	}
	back, err := reverse(current, tmpl.Content)
	if err != nil {
		return plan.Finds(name, fmt.Sprintf("the file differs from its template and cannot be restored (%v): repair or remove the file by hand", err)), nil
	}
	var answer plan.Answer
	for _, u := range back.Unknown {
		answer.Find(name, u+": the value looks filled in but has no known form; if it belongs to the old cluster, restore the placeholder by hand")
	}
	want, why := back.Content, "a bootstrap filled it in; other edits stay"
	whole := equivalent(back.Content, tmpl.Content)
	if whole {
		want, why = tmpl.Content, "a bootstrap filled it in"
	}
	if bytes.Equal(want, current) || equivalent(want, current) && !tmpl.Recorded {
		return answer, nil
	}
	attr, err := h.Files.Attributes(name)
	if err != nil {
		return plan.Answer{}, err
	}
	if whole && tmpl.Recorded {
		attr.Mode = tmpl.Attributes.Mode // only root reads what first boot writes
	}
	answer.Act(restoreAction(h, name, want, attr, why))
	return answer, nil
}

func restoreAction(h *host.Host, name string, content []byte, attr host.Attributes, why string) plan.Action {
	return plan.Action{Verb: plan.Restore, Target: name, Reason: why,
		Do: func(context.Context, plan.Progress) error { return h.Files.WriteFile(name, content, attr) }}
}

// equivalent reports whether two files mean the same: as JSON if both are JSON,
// otherwise as text without space at the end of lines and around the text.
func equivalent(a, b []byte) bool {
	ja, errA := parseObject(a)
	jb, errB := parseObject(b)
	if errA == nil && errB == nil {
		return ja.equal(jb)
	}
	return plainText(a) == plainText(b)
}

// plainText returns a text without space at the end of lines and around the
// text.
func plainText(text []byte) string {
	var lines []string
	for line := range strings.Lines(string(text)) {
		lines = append(lines, strings.TrimRight(line, " \t\r\n"))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
