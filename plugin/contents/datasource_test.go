package contents

import (
	"path/filepath"
	"testing"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

var _ packersdk.Datasource = new(Datasource)

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

func TestConfigureRefusesWrongFields(t *testing.T) {
	for name, c := range map[string]struct {
		block block
		want  string
	}{
		"an unknown distro":    {block{"distro": "slackware", "kubernetes_version": "1.34.4"}, `distro "slackware" is not known`},
		"no version":           {block{"distro": "debian"}, "kubernetes_version is missing; set a complete version, such as "},
		"an unknown processor": {block{"distro": "debian", "kubernetes_version": "1.34.4", "architecture": "x86_64"}, `the architecture "x86_64" is not supported`},
		"a missing lock file":  {block{"distro": "debian", "kubernetes_version": "1.34.4", "lock_file": filepath.Join(t.TempDir(), "x")}, `"eksnode lock" makes one`},
		"an image by its tag":  {block{"distro": "debian", "kubernetes_version": "1.34.4", "pause_image": "registry.k8s.io/pause:3.10"}, "has no digest"},
		"an unknown field":     {block{"distro": "debian", "kubernetes_version": "1.34.4", "version": "12"}, `unknown configuration key: '"version"'`},
	} {
		t.Run(name, func(t *testing.T) {
			var d Datasource
			require.ErrorContains(t, d.Configure(c.block), c.want)
		})
	}
	var d Datasource
	require.NoError(t, d.Configure(block{"distro": "<unknown>", "kubernetes_version": "1.34.4"}), "unknown fields must be accepted at validate")
}
