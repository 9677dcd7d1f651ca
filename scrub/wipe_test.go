//go:build linux

package scrub

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

func disk(t *testing.T) (file, mountPoint string) {
	t.Helper()
	mountPoint = t.TempDir()
	return testkit.Disk(t, mountPoint, "16M", "", "mke2fs", "-q", "-t", "ext4"), mountPoint
}

// Without a wipe, blocks of removed files keep their content, and the journal their names.
func TestWipingOverwritesRemovedFiles(t *testing.T) {
	const canary = "CANARY-OF-A-REMOVED-FILE"
	for name, wipes := range map[string]bool{"without": false, "with": true} {
		t.Run(name, func(t *testing.T) {
			file, root := disk(t)
			require.NoError(t, os.MkdirAll(filepath.Join(root, "etc"), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(root, "etc/hostname"), bytes.Repeat([]byte(canary), 1000), 0o644))
			// Small files beside others that stay: the disk discards in larger
			// pieces (a loop device in 4 KiB) than the file system's blocks are.
			for _, dir := range []string{"var/lib/cni", "kept"} {
				require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
			}
			for i := range 500 {
				removed, kept := "var/lib/cni/"+canary+strconv.Itoa(i), "kept/"+strconv.Itoa(i)
				require.NoError(t, os.WriteFile(filepath.Join(root, removed), []byte(canary), 0o644))
				require.NoError(t, os.WriteFile(filepath.Join(root, kept), []byte("kept"), 0o644))
			}
			testkit.Run(t, "sync", "-f", root)
			h, err := host.Mounted(root)
			require.NoError(t, err)
			spec := Spec{Only: []string{"hostname", "cni-state"}, WipeFreeSpace: wipes}
			outcomes, err := plan.Apply(t.Context(), h, selected(t, spec, ToScrub), nil)
			require.NoError(t, err)
			if wipes {
				last := outcomes[len(outcomes)-1]
				assert.Equal(t, "free-space", last.Item)
				assert.Equal(t, plan.Done, last.Status)
			}
			require.NoError(t, h.Close())
			testkit.Run(t, "umount", root)
			left := bytes.Count([]byte(testkit.Content(t, file)), []byte(canary))
			t.Logf("the canary is left %d times", left)
			assert.Equal(t, !wipes, left > 0)
		})
	}
}

func TestZeroFileIsRemovedAfterFillingTheDisk(t *testing.T) {
	_, root := disk(t)
	h := hosttest.Mounted(t, root)
	before, err := h.Files.Space("/")
	require.NoError(t, err)
	// A leftover file of a killed run does no harm.
	require.NoError(t, os.WriteFile(filepath.Join(root, ".eksnode-zeros"), []byte("x"), 0o600))
	waiting := false
	written, err := h.ZeroFreeSpace(t.Context(), "/", func(int64, int64) {
		waiting = waiting || isInMemory(t, filepath.Join(root, ".eksnode-zeros"))
	})
	require.NoError(t, err)
	assert.False(t, waiting, "pages wait for their blocks")
	assert.Greater(t, written, int64(before.FreeBytes)/2)
	assert.NoFileExists(t, filepath.Join(root, ".eksnode-zeros"))
}

// isInMemory says whether the page cache has the first page of a file.
func isInMemory(t *testing.T, name string) bool {
	t.Helper()
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	page, err := unix.Mmap(int(f.Fd()), 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	defer unix.Munmap(page)
	var resident byte
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&page[0])), uintptr(len(page)),
		uintptr(unsafe.Pointer(&resident)))
	require.Zero(t, errno)
	return resident&1 != 0
}

// Where the free space has many pieces, the metadata of the zeros needs blocks too, and one
// block can be too few for more of it.
func TestZerosFillTheLastBlock(t *testing.T) {
	for _, pieces := range []int{420, 421, 675} {
		_, root := disk(t)
		for i := range pieces {
			require.NoError(t, os.WriteFile(filepath.Join(root, strconv.Itoa(i)), []byte("removed"), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(root, "kept"+strconv.Itoa(i)), []byte("kept"), 0o600))
		}
		testkit.Run(t, "sync", "-f", root)
		for i := range pieces {
			require.NoError(t, os.Remove(filepath.Join(root, strconv.Itoa(i))))
		}
		h := hosttest.Mounted(t, root)
		var last host.Space
		_, err := h.ZeroFreeSpace(t.Context(), "/", func(int64, int64) { last, _ = h.Files.Space("/") })
		require.NoError(t, err)
		assert.Zero(t, last.FreeBytes, pieces)
	}
}

// xfsDisk mounts a disk of four allocation groups.
func xfsDisk(t *testing.T) (file, root string) {
	t.Helper()
	root = t.TempDir()
	return testkit.Disk(t, root, "64M", "", "mkfs.xfs", "-q", "-d", "agcount=4"), root
}

// XFS removes files in the background, and may leave out all but the largest pieces of an
// allocation group.
func TestEveryPieceOfXFSIsDiscarded(t *testing.T) {
	file, root := xfsDisk(t)
	canary := []byte("CANARY-OF-A-REMOVED-FILE")
	for i := range 400 {
		removed, kept := bytes.Repeat(canary, 1000+i), bytes.Repeat([]byte("kept"), 1000+i)
		require.NoError(t, os.WriteFile(filepath.Join(root, strconv.Itoa(i)), removed, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(root, "kept"+strconv.Itoa(i)), kept, 0o600))
	}
	testkit.Run(t, "sync", "-f", root)
	for i := range 400 {
		require.NoError(t, os.Remove(filepath.Join(root, strconv.Itoa(i))))
	}
	h := hosttest.Mounted(t, root)
	_, err := h.Trim("/")
	require.NoError(t, err)
	assert.Zero(t, bytes.Count([]byte(testkit.Content(t, file)), canary))
}

// XFS keeps a reserve, which the zeros take and give back. Only blocks that no file can get keep
// their content: fewer than eight in each of the four allocation groups.
func TestZerosFillTheReserveOfXFS(t *testing.T) {
	canary := []byte("CANARY-OF-A-REMOVED-FILE")
	file, root := xfsDisk(t)
	reserve := func(command string) string { return testkit.Run(t, "xfs_io", "-x", "-c", command, root) }
	before := reserve("resblks")
	reserve("resblks 0")
	removed := filepath.Join(root, "removed")
	require.ErrorIs(t, os.WriteFile(removed, bytes.Repeat(canary, 64<<20/len(canary)), 0o600), unix.ENOSPC)
	testkit.Run(t, "sync", "-f", root)
	require.NoError(t, os.Remove(removed))
	reserve("resblks " + strings.Fields(before)[3])
	h := hosttest.Mounted(t, root)
	_, err := h.ZeroFreeSpace(t.Context(), "/", func(int64, int64) {})
	require.NoError(t, err)
	// XFS frees the zeros' blocks in the background, and fills the reserve from them.
	require.Eventually(t, func() bool { return reserve("resblks") == before }, time.Minute, 10*time.Millisecond)
	testkit.Run(t, "sync", "-f", root)
	assert.Less(t, bytes.Count([]byte(testkit.Content(t, file)), canary)*len(canary), 4*8*4096)
}

func TestAFolderOnThisMachinesDiskIsNotWiped(t *testing.T) {
	h, _ := tree(t, map[string]string{"etc/passwd": passwd})
	spec := Spec{Only: []string{"hostname"}, WipeFreeSpace: true}
	_, err := plan.Apply(t.Context(), h, selected(t, spec, ToScrub), nil)
	assert.ErrorContains(t, err, "wiping would fill that file system")
}

// A compressed btrfs stores zeros in very little space, so filling it would write
// 32 times its size. The wipe writes the disk's size once, also if subvolumes are
// mounted several times.
func TestACompressedDiskIsWipedOnce(t *testing.T) {
	for _, options := range []string{"compress=zstd", "compress-force=zstd"} {
		t.Run(options, func(t *testing.T) {
			const size = 150 << 20
			root := filepath.Join(t.TempDir(), "root")
			file := testkit.Disk(t, root, strconv.Itoa(size), options, "mkfs.btrfs", "-q")
			device := strings.TrimSpace(testkit.Run(t, "findmnt", "-no", "SOURCE", root))
			for _, at := range []string{"home", "var", "var/log"} {
				testkit.Run(t, "btrfs", "subvolume", "create", filepath.Join(root, "@"+filepath.Base(at)))
				require.NoError(t, os.MkdirAll(filepath.Join(root, at), 0o755))
				testkit.Run(t, "mount", "-o", options+",subvol=@"+filepath.Base(at), device, filepath.Join(root, at))
			}
			h := hosttest.Mounted(t, root)
			canary := make([]byte, 1<<20) // random, so that it is on the disk as it is
			_, _ = rand.Read(canary)
			require.NoError(t, os.WriteFile(filepath.Join(root, "var/removed"), canary, 0o600))
			testkit.Run(t, "sync", "-f", root)
			require.NoError(t, os.Remove(filepath.Join(root, "var/removed")))
			written, err := h.ZeroFreeSpace(t.Context(), "/home", func(int64, int64) {})
			require.NoError(t, err)
			assert.Less(t, written, int64(size))
			assert.Greater(t, written, int64(size)/4)
			testkit.Run(t, "sync", "-f", root)
			raw := []byte(testkit.Content(t, file))
			for at := 0; at < len(canary); at += 64 << 10 {
				require.False(t, bytes.Contains(raw, canary[at:at+64]), "at %d", at)
			}
			outcomes, err := plan.Apply(t.Context(), h, []plan.Item{&wipe{}}, nil)
			require.NoError(t, err)
			at := show.Each(outcomes[0].Actions, func(a plan.Action) string { return a.Target })
			assert.Equal(t, []string{"/"}, at)
		})
	}
}

// Bind mounts and disks from elsewhere are not wiped.
func TestForeignDisksAreNotWiped(t *testing.T) {
	_, root := disk(t)
	for _, at := range []string{"var/log", "var/log/m", "srv", "data", "home"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, at), 0o755))
		if at != "home" {
			partition(t, filepath.Join(root, at), "ext4", nil)
		}
	}
	mounted(t, filepath.Join(root, "home"), "--bind", filepath.Join(root, "data"))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "var/lib"), 0o755))
	h := hosttest.Mounted(t, root)
	answer, err := (&wipe{}).Plan(t.Context(), h)
	require.NoError(t, err)
	at := show.Each(answer.Actions, func(a plan.Action) string { return string(a.Verb) + " " + a.Target })
	assert.Equal(t, []string{"wipe /", "wipe /var/log", "wipe /srv"}, at)
}

// Hashing a file of 1 TiB takes an hour. It stops when the context is cancelled,
// and the file is still there.
func TestHashingStopsWithTheContext(t *testing.T) {
	h, root := tree(t, map[string]string{"etc/passwd": passwd, "var/lib/cni/huge": ""})
	huge := filepath.Join(root, "var/lib/cni/huge")
	require.NoError(t, os.Truncate(huge, 1<<40))
	items := selected(t, Spec{Only: []string{"cni-state"}, Hash: true}, ToScrub)
	gone := errors.New("terminated")
	ctx, cancel := context.WithCancelCause(t.Context())
	over := make(chan error, 1)
	go func() {
		_, err := plan.Apply(ctx, h, items, nil)
		over <- err
	}()
	require.Eventually(t, func() bool { return isOpen(huge) }, time.Minute, 10*time.Millisecond)
	cancel(gone)
	select {
	case err := <-over:
		require.ErrorIs(t, err, gone)
		assert.ErrorContains(t, err, "cni-state: empty /var/lib/cni: hashing: ")
	case <-time.After(time.Minute):
		t.Fatal("hashing continues after the context was cancelled")
	}
	assert.FileExists(t, huge)
}

func isOpen(name string) bool {
	links, _ := filepath.Glob("/proc/self/fd/*")
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && to == name {
			return true
		}
	}
	return false
}

// Only removed regular files are hashed: not the target of a removed link, and
// not a FIFO.
func TestOnlyRemovedFilesAreHashed(t *testing.T) {
	h, root := tree(t, map[string]string{
		"etc/passwd": passwd, "kept/file": "x", "root/.aws": "-> /kept", "root/.kube/config": "x", "var/lib/cni": "-> /data", "data/lease": "x",
	})
	require.NoError(t, unix.Mkfifo(filepath.Join(root, "root/.kube/fifo"), 0o600))
	outcomes := apply(t, h, Spec{Only: []string{"credentials", "cni-state"}, Hash: true})
	var hashed []plan.FileHash
	for _, o := range outcomes {
		for _, a := range o.Actions {
			hashed = append(hashed, a.Files...)
		}
	}
	sum := manifest.Sum([]byte("x"))
	assert.ElementsMatch(t, []plan.FileHash{{Path: "/root/.kube/config", Size: 1, SHA256: sum}, {Path: "/var/lib/cni/lease", Size: 1, SHA256: sum}}, hashed)
	assert.FileExists(t, filepath.Join(root, "kept/file"))
}
