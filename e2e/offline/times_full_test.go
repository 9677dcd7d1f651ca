//go:build e2e && full

package offline_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
)

// TestTimes reports how long a build takes from a base image to an audited disk, without a
// machine and by SSH on a booted one. Both get their packages from the lab's mirror.
func TestTimes(t *testing.T) {
	b := open(t)
	folder := t.TempDir()
	base := filepath.Join(folder, "base.raw")
	require.NoError(t, machine.MakeDisk(b.Ctx, b.Root, base))
	made := filepath.Join(folder, "node.raw")
	build := b.inNetwork(append([]string{lab.Eksnode(t), "build", "--base", base, "-o", made}, b.options...))
	began := time.Now()
	out, err := build.CombinedOutput()
	offline := time.Since(began)
	require.NoError(t, err, "%s", out)
	usage, ok := build.ProcessState.SysUsage().(*syscall.Rusage)
	require.True(t, ok)

	began = time.Now()
	n := b.Start(t, machine.Config{Image: base, InstanceID: "i-ssh", ReadyWithin: 2 * time.Minute})
	ready := time.Since(began)
	n.KeepRoot(t, b.Key)
	n.Upload(t, lab.Eksnode(t), "/root/eksnode")
	n.Sh(t, "/root/eksnode provision %s", strings.Join(b.options, " "))
	provisioned := time.Since(began)
	n.Sh(t, "/root/eksnode scrub --yes --audit fail || true")
	bySSH := time.Since(began)
	sizes, err := exec.CommandContext(b.Ctx, "du", "-k", base, made).Output()
	require.NoError(t, err)
	t.Logf("without a machine: %v; largest process %d MiB; written %d MiB", offline, usage.Maxrss>>10, usage.Oublock>>11)
	t.Logf("by SSH: %v, with boot %v and provision %v; the disk is not captured yet", bySSH, ready, provisioned-ready)
	assert.Less(t, offline, bySSH*6/10)
	t.Logf("KiB on the disk:\n%s", sizes)
}
