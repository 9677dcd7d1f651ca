package render

import (
	"fmt"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/machine"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
)

// ecrImages returns the patterns of ECR's registries in all partitions. Source:
// amazon-eks-ami, July 2026.
func ecrImages() []string {
	return []string{
		"*.dkr.ecr.*.amazonaws.com",
		"*.dkr-ecr.*.on.aws",
		"*.dkr.ecr.*.amazonaws.com.cn",
		"*.dkr-ecr.*.on.amazonwebservices.com.cn",
		"*.dkr.ecr-fips.*.amazonaws.com",
		"*.dkr-ecr-fips.*.on.aws",
		"*.dkr.ecr.*.c2s.ic.gov",
		"*.dkr.ecr.*.sc2s.sgov.gov",
		"*.dkr.ecr.*.cloud.adc-e.uk",
		"*.dkr.ecr.*.csp.hci.ic.gov",
		"*.dkr.ecr.*.amazonaws.eu",
		"public.ecr.aws",
	}
}

// credentialProviderFiles returns the file that lists the images for which the
// kubelet runs the credential provider.
func credentialProviderFiles(n *node.Node) ([]File, error) {
	if !n.Machine.CredentialProvider {
		return nil, nil
	}
	type provider struct {
		Name                 string   `json:"name"`
		APIVersion           string   `json:"apiVersion"`
		DefaultCacheDuration string   `json:"defaultCacheDuration"`
		MatchImages          []string `json:"matchImages"`
	}
	version, images := "v1", ecrImages()
	if n.Machine.Kubelet.Less(1, 27) {
		version = "v1alpha1" // kubernetes/cloud-provider-aws#597
	}
	if !n.Machine.Kubelet.Less(1, 32) {
		images = append(images, "ecr-public.aws.com")
	}
	content, err := encode(struct {
		APIVersion string     `json:"apiVersion"`
		Kind       string     `json:"kind"`
		Providers  []provider `json:"providers"`
	}{
		"kubelet.config.k8s.io/" + version, "CredentialProviderConfig",
		[]provider{{machine.CredentialProviderName, "credentialprovider.kubelet.k8s.io/" + version, "12h0m0s", images}},
	})
	if err != nil {
		return nil, fmt.Errorf("writing the credential provider's configuration: %w", err)
	}
	return []File{{Path: CredentialProvider, Mode: 0o644, Content: content, Why: "the images for which the kubelet requests credentials", Of: []Service{Kubelet}}}, nil
}
