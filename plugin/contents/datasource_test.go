package contents

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

type block = map[string]any

func texts(v cty.Value) map[string]string {
	all := map[string]string{}
	for name, text := range v.AsValueMap() {
		all[name] = text.AsString()
	}
	return all
}

// The outputs have the versions that a provisioner with the same fields installs
// and records in the image's manifest.
func TestOutputsEqualTheProvisionedVersions(t *testing.T) {
	var d Datasource
	require.NoError(t, d.Configure(block{"distro": "debian", "kubernetes_version": "1.34.4", "versions": block{"cni-plugins": "1.8.0"},
		"pause_image": "registry.k8s.io/pause:3.10@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}))
	value, err := d.Execute()
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"kubelet": "1.34.4", "cni-plugins": "1.8.0", "ecr-credential-provider": "1.37.0", "pause": "3.10"}, texts(value.GetAttr("versions")))
	assert.Equal(t, map[string]string{
		"eksnode:kubernetes-version": "1.34.4", "eksnode:distro": "debian", "eksnode:architecture": "amd64", "eksnode:asset:kubelet": "1.34.4",
		"eksnode:asset:cni-plugins": "1.8.0", "eksnode:asset:ecr-credential-provider": "1.37.0", "eksnode:asset:pause": "3.10",
	}, texts(value.GetAttr("tags")))
	assert.Equal(t, "EKS node, Kubernetes 1.34.4, debian on amd64: cni-plugins 1.8.0, ecr-credential-provider 1.37.0, pause 3.10", value.GetAttr("description").AsString())

	require.NoError(t, d.Configure(block{"distro": "rocky", "kubernetes_version": "1.34.4", "architecture": "arm64"}))
	value, err = d.Execute()
	require.NoError(t, err)
	distro, err := distros.ByID("rocky")
	require.NoError(t, err)
	spec := provisioner.Spec{KubernetesVersion: "1.34.4"}
	items, err := provisioner.Steps(spec, distro, provisioner.Inputs{Arch: "arm64"})
	require.NoError(t, err)
	var fetched []string
	for _, item := range items {
		for _, id := range asset.IDs() {
			if item.ID() == id {
				fetched = append(fetched, id)
			}
		}
	}
	for _, id := range fetched {
		assert.Contains(t, texts(value.GetAttr("versions")), id)
	}
	assert.Len(t, texts(value.GetAttr("versions")), len(fetched), "there must be no other versions; containerd and runc come from upstream here")
}
