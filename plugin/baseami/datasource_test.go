package baseami

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros"
)

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
