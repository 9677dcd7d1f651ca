//go:build linux

package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// bind mounts a folder of the image at another place. The test needs root.
func (i image) bind(t *testing.T, source, target string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(target, 0o755))
	require.NoError(t, unix.Mount(source, target, "", unix.MS_BIND, ""), "these tests mount things: run them as root")
	t.Cleanup(func() {
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			t.Errorf("unmounting %s: %v", target, err)
		}
	})
}

func TestRemoveTreeCountsAndRemoves(t *testing.T) {
	i := newImage(t)
	i.put(t, "var/lib/x/a", "12345")
	i.put(t, "var/lib/x/deep/er/b", "123")
	for _, name := range []string{"new\nline \xff", "-rf", "*", "..x"} {
		i.put(t, "var/lib/x/"+name, "1")
	}
	i.put(t, "var/lib/x.beside", "1")
	i.link(t, filepath.Join(i.outside, "tree-evil"), "var/lib/x/out")

	i.put(t, "var/lib/x/holes", "")
	require.NoError(t, os.Truncate(filepath.Join(i.root, "var/lib/x/holes"), 1<<30))

	m, err := i.Files.Measure("/var/lib/x", false)
	require.NoError(t, err)
	gone, err := i.Files.RemoveTree("/var/lib/x")
	require.NoError(t, err)
	assert.Equal(t, int64(11), gone.Entries)
	assert.Equal(t, int64(12), m.Bytes, "the lengths of the files, not what they take on the disk, but no holes")
	assert.Equal(t, m, gone)
	assert.NoDirExists(t, filepath.Join(i.root, "var/lib/x"))
	assert.FileExists(t, filepath.Join(i.root, "var/lib/x.beside"))
	i.outsideIntact(t)

	gone, err = i.Files.RemoveTree("/var/lib/x")
	require.NoError(t, err)
	assert.Zero(t, gone)
}

func TestRemoveTreeRemovesALinkAndNotItsTarget(t *testing.T) {
	i := newImage(t)
	i.put(t, "data/kept", "x")
	i.link(t, "/data", "var/alias")
	_, err := i.Files.RemoveTree("/var/alias")
	require.NoError(t, err)
	assert.FileExists(t, filepath.Join(i.root, "data/kept"))
}

func TestRemoveContentsKeepsTheFolder(t *testing.T) {
	i := newImage(t)
	i.put(t, "data/gone", "x")
	require.NoError(t, os.Chmod(filepath.Join(i.root, "data"), 0o750))
	i.link(t, "/data", "var/lib/kubelet")
	before, err := i.Files.Measure("/var/lib/kubelet", true)
	require.NoError(t, err)
	gone, err := i.Files.RemoveContents("/var/lib/kubelet")
	require.NoError(t, err)
	assert.Equal(t, before, gone)
	assert.Equal(t, int64(1), gone.Entries)
	st, err := i.Files.Stat("/data")
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o750), st.Mode().Perm())
	target, err := i.Files.ReadlinkIfPossible("/var/lib/kubelet")
	require.NoError(t, err)
	assert.Equal(t, "/data", target)
}

// The sweep does not enter a mount that appears after the mount table was read.
func TestTheSweepDoesNotEnterALateMount(t *testing.T) {
	i := newImage(t)
	i.bind(t, filepath.Join(i.outside, "tree-evil"), filepath.Join(i.root, "top/mnt"))
	p, err := i.Files.resolve("/top", false)
	require.NoError(t, err)
	defer p.close()
	var mounted *MountedError
	_, err = sweep(p, "/top", false)
	require.ErrorAs(t, err, &mounted)
	assert.Equal(t, "/top/mnt", mounted.Path)
	i.outsideIntact(t)
}

func TestAMountPointIsEmptiedAndStays(t *testing.T) {
	i := newImage(t)
	i.put(t, "disk/state", "x")
	i.bind(t, filepath.Join(i.root, "disk"), filepath.Join(i.root, "var/lib/kubelet"))
	gone, err := i.Files.RemoveContents("/var/lib/kubelet")
	require.NoError(t, err)
	assert.Equal(t, int64(1), gone.Entries)
	mounted, err := i.Files.IsMountPoint("/var/lib/kubelet")
	require.NoError(t, err)
	assert.True(t, mounted)
}

func TestMountIDsOfStatxAndProcAgree(t *testing.T) {
	fd, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	a, err := mountID(fd)
	require.NoError(t, err)
	b, err := mountIDFromProc(fd)
	require.NoError(t, err)
	assert.Equal(t, a, b, "kernels with and without statx must give the same answer")
}

// An immutable file stays, the error contains the remedy, and the other files are
// removed, also those that the kernel lists long after it.
func TestAnImmutableFileDoesNotStopTheRemoval(t *testing.T) {
	for _, r := range removers {
		t.Run(r.name, func(t *testing.T) {
			i := newImage(t)
			i.put(t, "state/file", "x")
			i.put(t, "state/other/file", "x")
			for n := range 1000 {
				i.put(t, fmt.Sprint("state/", n), "x")
			}
			locked := filepath.Join(i.root, "state/file")
			chattr(t, "+i", locked)
			t.Cleanup(func() { chattr(t, "-i", locked) })
			gone, err := r.do(i.Files, "/state")
			require.EqualError(t, err, "remove /state/file: operation not permitted "+
				"(immutable or append-only? see lsattr; chattr -ia clears it)")
			assert.Equal(t, []string{"file"}, testkit.Names(t, filepath.Dir(locked)))
			assert.Equal(t, Removal{Entries: 1002, Bytes: 1001}, gone)
		})
	}
}

func chattr(t *testing.T, flag, name string) {
	t.Helper()
	testkit.Run(t, "chattr", flag, name)
}

// Files that a process adds during the removal are removed too.
func TestFilesAddedDuringTheRemovalAreRemoved(t *testing.T) {
	i := newImage(t)
	for n := range 2000 {
		i.put(t, fmt.Sprintf("busy/%d/file", n%50)+fmt.Sprint(n), "x")
	}
	started, stop := make(chan struct{}), make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for n := 0; ; n++ {
			_ = os.WriteFile(filepath.Join(i.root, fmt.Sprintf("busy/%d/late%d", n%50, n)), nil, 0o600)
			if n == 0 {
				close(started)
			}
			if n == 1000 {
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	<-started
	_, err := i.Files.RemoveTree("/busy")
	close(stop)
	writer.Wait()
	require.NoError(t, err)
	assert.NoDirExists(t, filepath.Join(i.root, "busy"))
}
