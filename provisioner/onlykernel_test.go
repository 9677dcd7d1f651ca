package provisioner

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros/livetest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
)

func TestKernelsAreValidated(t *testing.T) {
	for want, s := range map[string]Spec{
		`kernel: "linux lts" is not a package's name`:                                              {Kernel: "linux lts"},
		"kernel: the image of Flatcar Container Linux keeps its kernel; choose another base image": {Distro: "flatcar", Kernel: "linux"},
		"kernel: the image of Amazon Linux 2 keeps its kernel; choose another base image":          {Distro: "amazonlinux2", Kernel: "kernel"},
	} {
		s.KubernetesVersion = "1.34.4"
		require.ErrorContains(t, s.Validate(), want)
	}
}

// The error about an unknown kernel has those of the repositories, by the real apt.
func TestAnUnknownKernelIsAnErrorWithTheKnownOnes(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		n := nodeOf(t, "debian", Spec{Kernel: "linux-image-cloudy"})
		err := n.install(t.Context(), h, []string{"linux-image-cloudy"})
		require.ErrorContains(t, err, `kernel: "linux-image-cloudy" is no kernel of this machine's repositories; they have `)

		testkit.Write(t, "/boot/grub/grub.cfg", "")
		assert.ErrorContains(t, n.install(t.Context(), h, []string{"linux-image-cloudy"}),
			"update-grub writes /boot/grub/grub.cfg, and for that has to read the disks of a running machine")
	})
}
