package host

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// TestUnmountOnTheLiveMachine mounts a file system in a folder of the test. It
// needs root.
func TestUnmountOnTheLiveMachine(t *testing.T) {
	h := live(t)
	folder, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "real"), 0o755))
	require.NoError(t, os.Symlink("real", filepath.Join(folder, "linked")))
	outer := filepath.Join(folder, "linked", "a mount")
	inner := filepath.Join(outer, "inner")
	require.NoError(t, os.Mkdir(outer, 0o755))
	require.NoError(t, unix.Mount("outer", outer, "tmpfs", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(outer, unix.MNT_DETACH) }) // unmounted already when the test passes
	require.NoError(t, os.Mkdir(inner, 0o755))
	require.NoError(t, unix.Mount("inner", inner, "tmpfs", 0, ""))

	file, err := os.Create(filepath.Join(inner, "open"))
	require.NoError(t, err)
	err = h.Unmount(inner)
	require.ErrorIs(t, err, unix.EBUSY)
	comm, readErr := os.ReadFile("/proc/self/comm")
	require.NoError(t, readErr)
	assert.EqualError(t, err, fmt.Sprintf("unmount %s: device or resource busy; stop what uses it: %s (pid %d)", inner, string(comm[:len(comm)-1]), os.Getpid()))
	require.NoError(t, file.Close())
	testkit.Run(t, "cp", "/bin/cat", inner)
	for _, use := range []*exec.Cmd{{Path: "/bin/cat", Dir: inner}, {Path: filepath.Join(inner, "cat")}} {
		in, err := use.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, use.Start())
		require.ErrorContains(t, h.Unmount(inner), fmt.Sprintf(": cat (pid %d)", use.Process.Pid))
		require.NoError(t, in.Close())
		require.NoError(t, use.Wait())
	}

	mounts, err := h.Files.MountsBelow(folder + "/linked")
	require.NoError(t, err)
	require.Equal(t, []Mount{{Path: inner, Type: "tmpfs", Source: "inner"}, {Path: outer, Type: "tmpfs", Source: "outer"}}, mounts)
	for _, mount := range mounts {
		require.NoError(t, h.Unmount(mount.Path))
	}
	mounts, err = h.Files.MountsBelow(folder + "/linked")
	require.NoError(t, err)
	assert.Empty(t, mounts)
	assert.ErrorIs(t, h.Unmount(outer), unix.EINVAL, "nothing is mounted there")
}

// A removal sees a file system that was mounted after the previous removal.
func TestRemovalDetectsANewMount(t *testing.T) {
	i := newImage(t)
	for _, name := range []string{"a/file", "b/deep/mount/keep", "b/first"} {
		i.put(t, name, "x")
	}
	_, err := i.Files.RemoveTree("/a")
	require.NoError(t, err)
	i.bind(t, i.root, filepath.Join(i.root, "b/deep/mount"))
	gone, err := i.Files.RemoveTree("/b")
	var mounted *MountedError
	require.ErrorAs(t, err, &mounted)
	assert.Equal(t, "/b/deep/mount", mounted.Path)
	assert.Zero(t, gone, "something was removed before the mount was seen")
}
