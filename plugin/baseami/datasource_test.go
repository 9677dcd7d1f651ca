package baseami

import (
	"testing"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros"
)

var _ packersdk.Datasource = new(Datasource)

func TestConfigureRefusesWrongFields(t *testing.T) {
	for name, c := range map[string]struct {
		block map[string]any
		want  string
	}{
		"distro":       {map[string]any{"distro": "slackware"}, `distro "slackware" is not known`},
		"version":      {map[string]any{"distro": "debian", "version": "7"}, `7`},
		"architecture": {map[string]any{"distro": "debian", "architecture": "riscv64"}, `architecture: "riscv64" is not known; known are amd64, arm64`},
		"both":         {map[string]any{"distro": "debian", "name": "a", "parameter": "b"}, "name and parameter: name one of them"},
		"kernel": {map[string]any{"distro": "amazonlinux2023", "kernel": "5.10"},
			`no images by the kernel "5.10"; known are 6.1, 6.12, 6.18`},
		"no kernels": {map[string]any{"distro": "debian", "kernel": "6.1"},
			`no images by the kernel "6.1"; known are none`},
		"both again": {map[string]any{"distro": "amazonlinux2023", "kernel": "6.1", "name": "a"},
			"kernel: name and parameter choose the image already"},
	} {
		t.Run(name, func(t *testing.T) {
			var d Datasource
			require.ErrorContains(t, d.Configure(c.block), c.want)
		})
	}
	var d Datasource
	require.NoError(t, d.Configure(map[string]any{"distro": "<unknown>"}))
}

// A kernel chooses the publisher's parameter, and the name without one.
func TestTheKernelChoosesTheImage(t *testing.T) {
	c := Config{Distro: "amazonlinux2023", Architecture: "arm64", Kernel: "6.18"}
	s, _, err := c.search("eu-west-1")
	require.NoError(t, err)
	assert.Equal(t, "/aws/service/ami-amazon-linux-latest/al2023-ami-minimal-kernel-6.18-arm64", s.Parameter)
	assert.Equal(t, "al2023-ami-minimal-2023.*-kernel-6.18-arm64", s.Name)
	c.Kernel = ""
	s, _, err = c.search("eu-west-1")
	require.NoError(t, err)
	assert.Equal(t, "/aws/service/ami-amazon-linux-latest/al2023-ami-minimal-kernel-default-arm64", s.Parameter)
	assert.Equal(t, "al2023-ami-minimal-2023.*-kernel-*-arm64", s.Name)
}

// Every distribution has a search for its base AMI, in China too.
func TestEveryDistributionHasASearch(t *testing.T) {
	for _, distro := range distros.All() {
		c := Config{Distro: distro.ID, Architecture: "amd64"}
		for _, region := range []string{"eu-west-1", "cn-north-1"} {
			s, user, err := c.search(region)
			require.NoError(t, err, distro.ID)
			assert.NotEmpty(t, s.Name, distro.ID)
			assert.NotEmpty(t, user, distro.ID)
			require.Len(t, s.Owners, 1)
			assert.NotEmpty(t, s.Owners[0], distro.ID)
		}
	}
}
