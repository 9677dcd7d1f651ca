package scrub

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

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
