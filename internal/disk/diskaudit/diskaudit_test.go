//go:build linux

package diskaudit_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskaudit"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

func TestMain(m *testing.M) {
	if code, child := diskaudit.Child(context.Background(), atWork); child {
		os.Exit(code)
	}
	if path := os.Getenv(auditMark); path != "" {
		os.Exit(auditAlone(path))
	}
	os.Exit(m.Run())
}

// atWork is the work of TestAWorkWritesAndGrows: it reads a file, writes another, and
// returns the size of the file system.
func atWork(_ context.Context, root string, input []byte) ([]byte, error) {
	var st unix.Statfs_t
	text, err := os.ReadFile(filepath.Join(diskaudit.WorkFolder, "file"))
	err = errors.Join(err, os.WriteFile(filepath.Join(root, "written"), append(input, text...), 0o600), unix.Statfs(root, &st))
	if string(input) == `"fails"` {
		err = errors.New("the work failed")
	}
	return fmt.Append(nil, st.Blocks*uint64(st.Bsize)), err
}

func given(t *testing.T) *os.File {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "file"), []byte(" there"), 0o600))
	f, err := os.Open(folder)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// The program that checks the file system after the work refuses one that is mounted.
func TestAWorkUnmountsAllSubvolumes(t *testing.T) {
	path := withParts(t, "gpt", part{typeRoot, btrfs + `btrfs -q subvolume create /mnt/root
btrfs -q subvolume create /mnt/var; cp -a "$2/." /mnt/root; umount /mnt`,
		root(map[string]string{"etc/fstab": "/dev/vda1 /var btrfs subvol=var 0 0\n"})})
	_, layout, roots := laidOut(t, path)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer file.Close()
	var size int64
	work := diskaudit.Work{Disk: file, Layout: layout, Roots: roots, Folder: given(t), Input: "x", Progress: t.Output()}
	_, err = work.Run(t.Context(), &size)
	require.NoError(t, err)
}

func TestAWorkWritesAndGrows(t *testing.T) {
	given := given(t)
	for _, kind := range []string{"ext4", "xfs", "btrfs"} {
		path := image(t, kind, map[string]string{"etc/os-release": "ID=debian\n"})
		_, layout, roots := laidOut(t, path)
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		require.NoError(t, err)
		work := diskaudit.Work{Disk: file, Layout: layout, Roots: roots, Folder: given, Input: "written", Progress: t.Output()}
		work.Grown, err = layout.Grow(file, 1, 640<<20)
		require.NoError(t, err)
		var size int64
		_, err = work.Run(t.Context(), &size)
		require.NoError(t, err, kind)
		assert.Greater(t, size, int64(500<<20), kind)

		require.NoError(t, file.Close())
		testkit.Released(t, path)

		i, layout, roots := laidOut(t, path)
		assert.False(t, layout.Partitions[0].Dirty, kind)
		list, err := diskaudit.Audit{Image: i}.List(t.Context())
		require.NoError(t, err, kind)
		defer list.Close()
		var written [sha256.Size]byte
		for e, err := list.Next(); err == nil; e, err = list.Next() {
			if e.Path == "/written" {
				written = e.Sum
			}
		}
		assert.Equal(t, sha256.Sum256([]byte(`"written" there`)), written, kind)

		file, err = os.OpenFile(path, os.O_RDWR, 0)
		require.NoError(t, err)
		_, err = diskaudit.Work{Disk: file, Layout: layout, Roots: roots, Folder: given, Input: "fails", Progress: t.Output()}.Run(t.Context(), &size)
		require.ErrorContains(t, err, "the work failed")
		require.NoError(t, file.Close())
		testkit.Released(t, path)
	}
}

func laidOut(t *testing.T, path string) (*disk.Image, *disk.Layout, []disk.Partition) {
	t.Helper()
	i, err := disk.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { i.Close() })
	roots, err := i.Layout.Roots(0)
	require.NoError(t, err)
	return i, i.Layout, roots
}

// auditMark is the environment variable of a process that only audits a disk.
const auditMark = "TEST_AUDIT_DISK"

func auditAlone(path string) int {
	if _, err := (diskaudit.Audit{}).File(context.Background(), path); err != nil {
		return 1
	}
	return 0
}

// image makes a raw disk with a GPT and one partition with a file system of the files.
func image(t *testing.T, kind string, files map[string]string) string {
	t.Helper()
	scripts := map[string]string{
		"ext4": ext4, "xfs": xfs,
		"btrfs": btrfs + `btrfs -q subvolume create /mnt/root; cp -a "$2/." /mnt/root; umount /mnt`,
	}
	return withParts(t, "gpt", part{typeRoot, scripts[kind], files})
}

func audit(t *testing.T, path string, skip ...string) (plan.Report, error) {
	t.Helper()
	return diskaudit.Audit{Spec: scrub.Spec{Skip: skip}, Folder: t.TempDir()}.File(t.Context(), path)
}

func TestTheRootPartitionIsAudited(t *testing.T) {
	joined := map[string]string{
		"etc/os-release": "ID=debian\nVERSION_ID=13\n", "var/lib/kubelet/pki/kubelet-client-current.pem": "certificate",
		"etc/machine-id": "0123456789abcdef0123456789abcdef\n",
	}
	for _, kind := range []string{"ext4", "xfs", "btrfs"} {
		for _, format := range []string{"raw", "qcow2"} {
			t.Run(kind+" "+format, func(t *testing.T) {
				path := image(t, kind, joined)
				if format == "qcow2" {
					testkit.Run(t, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", path, path+".qcow2")
					path += ".qcow2"
				}
				before := testkit.Content(t, path)
				r, err := audit(t, path)
				require.NoError(t, err)
				require.Equal(t, plan.Findings, r.Result)
				require.Equal(t, "debian", r.Machine.Distro)
				found := map[string]bool{}
				for _, p := range r.Plan {
					found[p.Item] = true
				}
				require.True(t, found["kubelet-pki"], "the kubelet's state is found: %v", found)
				require.True(t, before == testkit.Content(t, path), "the audit must not write")
				testkit.Released(t, path)
			})
		}
	}
}

func TestDisksThatCannotBeAudited(t *testing.T) {
	path := image(t, "ext4", map[string]string{"etc/hostname": "x"})
	_, err := audit(t, path)
	require.EqualError(t, err, "auditing the disk image "+path+": the ext4 file system at byte 1048576 has no /etc/os-release, so it is not the root of a Linux system; name the root partition")
}

// TestAKilledAuditLeavesNothing kills an audit of a disk whose partition is copied, while
// the copy is mounted.
func TestAKilledAuditLeavesNothing(t *testing.T) {
	path := image(t, "ext4", map[string]string{"etc/os-release": "ID=debian\nVERSION_ID=13\n", "srv/text": strings.Repeat("a long text without secrets\n", 1<<20)})
	testkit.Run(t, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", path, path+".qcow2")
	folder := t.TempDir()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), auditMark+"="+path+".qcow2", "TMPDIR="+folder)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	var child string
	require.Eventually(t, func() bool {
		children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", cmd.Process.Pid))
		child = ""
		for _, file := range children {
			text, _ := os.ReadFile(file)
			child += strings.TrimSpace(string(text))
		}
		mounts, _ := os.ReadFile(filepath.Join("/proc", child, "mountinfo"))
		_, device, _ := strings.Cut(testkit.Run(t, "losetup", "--list", "--noheadings", "--output", "BACK-FILE,NAME"), folder)
		fields := strings.Fields(device) // the rest of the path, perhaps (deleted), and the device
		for _, field := range fields {
			if strings.HasPrefix(field, "/dev/loop") {
				return child != "" && strings.Contains(string(mounts), " "+field+" ")
			}
		}
		return false
	}, time.Minute, time.Millisecond, "the copy is mounted")
	left := func() []os.DirEntry {
		entries, err := os.ReadDir(folder)
		require.NoError(t, err)
		return entries
	}
	assert.Empty(t, left(), "nothing has a name while the audit runs")
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait(), "the audit was killed before its end")
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join("/proc", child))
		loops := testkit.Run(t, "losetup", "--list", "--noheadings", "--output", "BACK-FILE")
		return errors.Is(err, fs.ErrNotExist) && !strings.Contains(loops, folder)
	}, time.Minute, time.Millisecond)
	assert.Empty(t, left())
}
