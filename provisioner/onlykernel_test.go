package provisioner

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/livetest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
)

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
