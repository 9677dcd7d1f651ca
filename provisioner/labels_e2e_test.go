//go:build e2e

package provisioner

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/livetest"
	"github.com/eksnode/packer-plugin-eksnode/host"
)

// TestRealLabels labels the written files with setfiles, which is restorecon with a
// given policy file: this kernel has no SELinux, so restorecon itself would do
// nothing. The contexts are real attributes of real files.
func TestRealLabels(t *testing.T) {
	if os.Getenv("EKSNODE_LIVETEST") == "" {
		require.NoError(t, base.Install(t.Context(), os.Stderr, "policycoreutils"))
	}
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		// Labels are for a machine that systemd started: process 1 has this root.
		require.NoError(t, unix.Mount("tmpfs", "/proc/1", "tmpfs", 0, ""))
		require.NoError(t, os.Symlink("/", "/proc/1/root"))
		require.NoError(t, os.MkdirAll("/run/systemd/system", 0o755))
		require.NoError(t, unix.Mount("tmpfs", "/sys/fs", "tmpfs", 0, ""))
		require.NoError(t, os.MkdirAll("/sys/fs/selinux", 0o755))
		require.NoError(t, os.WriteFile(seLinuxPolicy, nil, 0o644))
		const contexts = "/etc/selinux/made-here"
		require.NoError(t, os.MkdirAll("/etc/selinux", 0o755))
		require.NoError(t, os.WriteFile(contexts, []byte("/.*\tsystem_u:object_r:etc_t:s0\n/usr/bin/kubelet\t--\tsystem_u:object_r:kubelet_exec_t:s0\n"), 0o644))
		require.NoError(t, os.WriteFile("/usr/bin/kubelet", nil, 0o755))

		n := nodeOf(t, "rhel", Spec{})
		n.distro.Security.Relabel = []string{"setfiles", contexts}
		n.distro.Security.CheckLabels = []string{"setfiles", "-n", "-v", contexts}
		answer, err := pick(n, "labels")[0].Plan(t.Context(), h)
		require.NoError(t, err)
		require.Len(t, answer.Actions, 1)
		require.NoError(t, settle(t, h, pick(n, "labels")...))

		label := make([]byte, 64)
		size, err := unix.Getxattr("/usr/bin/kubelet", "security.selinux", label)
		require.NoError(t, err)
		assert.Equal(t, "system_u:object_r:kubelet_exec_t:s0\x00", string(label[:size]))
	})
}
