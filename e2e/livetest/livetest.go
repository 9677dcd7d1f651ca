//go:build linux

// Package livetest lets a test change a live machine as it likes: it gets a
// copy of the one it runs on, which vanishes with it. The copy is an overlay
// over the root in a mount namespace of its own, so it has the same commands
// and costs nothing to make. It needs root.
package livetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// The environment of the process that a test runs in: the test that it is to
// run, the folder for the copy, and the root to copy.
const (
	inside = "EKSNODE_LIVETEST"
	within = "EKSNODE_LIVETEST_FOLDER"
	copied = "EKSNODE_LIVETEST_ROOT"
)

// Run runs a test on a copy of this machine, by running the test program again
// for this one test. The host it gives is live; its root is the copy's.
func Run(t *testing.T, test func(t *testing.T, h *host.Host)) {
	t.Helper()
	RunOn(t, "/", test)
}

// RunOn is Run on a copy of another system's root.
func RunOn(t *testing.T, root string, test func(t *testing.T, h *host.Host)) {
	t.Helper()
	if os.Getenv(inside) == t.Name() {
		enter(t)
		h, err := host.Live()
		require.NoError(t, err)
		defer h.Close()
		test(t, h)
		return
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run="+only(t.Name()), "-test.count=1", "-test.v")
	cmd.Env = append(os.Environ(), inside+"="+t.Name(), within+"="+t.TempDir(), copied+"="+root)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "on the copy of this machine:\n%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name(), "the copy ran another test:\n%s", out)
}

// only is the pattern that chooses one test.
func only(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// enter makes the copy and moves this process into it. Its mounts end with the
// process's namespace.
func enter(t *testing.T) {
	t.Helper()
	base := os.Getenv(within) // its owner outside removes it
	require.NoError(t, unix.Mount("tmpfs", base, "tmpfs", 0, ""))
	for _, dir := range []string{"upper", "work", "root"} {
		require.NoError(t, os.Mkdir(filepath.Join(base, dir), 0o755))
	}
	root := filepath.Join(base, "root")
	layers := "lowerdir=" + os.Getenv(copied) + ",upperdir=" + filepath.Join(base, "upper") +
		",workdir=" + filepath.Join(base, "work")
	require.NoError(t, unix.Mount("overlay", root, "overlay", 0, layers))
	for _, dir := range []string{"proc", "sys", "dev"} {
		require.NoError(t, unix.Mount("/"+dir, filepath.Join(root, dir), "", unix.MS_BIND|unix.MS_REC, ""))
	}
	require.NoError(t, unix.Chroot(root))
	require.NoError(t, os.Chdir("/"))
	require.NoError(t, os.RemoveAll("/lib/modules")) // a test brings its own kernels
	t.Setenv("TMPDIR", "/tmp")
}
