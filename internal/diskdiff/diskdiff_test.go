//go:build linux

package diskdiff_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/diskdiff"
)

// A copy of a disk has the same UUIDs. XFS and btrfs refuse to mount these a second
// time, unless they are mounted in the right way.
func TestEveryChangeOfACopyIsFound(t *testing.T) {
	root := tree(t, map[string]string{
		"a/content": "one", "a/size": "x", "a/mode": "", "a/owner": "", "a/type": "", "a/gone": "", "a/same": "same", "a/xattr": "", "a/caps": "",
		"old/tree/file": "", "hard/one": "linked",
	})
	for _, kind := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(kind, func(t *testing.T) {
			before := changed(t, image(t, kind, root), `ln -s there a/link; mknod a/device c 1 3; mkfifo a/fifo; ln hard/one hard/two; truncate -s 40G a/sparse; truncate -s 3G a/zeros a/part
printf x | dd of=a/part bs=4k seek=5 conv=notrunc status=none`)
			after := changed(t, before, `
printf two >a/content; printf xx >a/size; chmod 4755 a/mode; chown 5:6 a/owner; rm a/type; mkdir a/type; rm a/gone; touch a/new
setfattr -n user.x -v y a/xattr; setcap cap_net_raw+ep a/caps; ln -sfn elsewhere a/link; rm a/device; mknod a/device c 1 5
python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('a/socket')"; rm -r old; ln hard/one hard/three; chmod 700 hard
printf x | dd of=a/sparse bs=1 seek=30G conv=notrunc status=none; dd if=/dev/zero of=a/zeros bs=64k seek=9000 count=10 conv=notrunc status=none
dd if=/dev/zero of=a/part bs=4k count=5 conv=notrunc status=none; touch a/same; chmod 600 a/fifo`)
			r := compared(t, before, after)
			require.Equal(t, []string{
				"~ /a/caps: capabilities", "~ /a/content: content", "~ /a/device: device", "~ /a/fifo: mode", "- /a/gone", "~ /a/link: target", "~ /a/mode: mode", "+ /a/new", "~ /a/owner: owner",
				"~ /a/size: content, size", "+ /a/socket", "~ /a/sparse: content", "~ /a/type: type", "~ /a/xattr: attribute user.x",
				"~ /hard: mode", "~ /hard/one: hard links", "+ /hard/three", "~ /hard/two: hard links", "- /old", "- /old/tree", "- /old/tree/file",
			}, told(r))
			require.Equal(t, diskdiff.Root{Partition: 1, FileSystem: kind}, r.Roots[0])
			for _, f := range r.Files {
				require.Equal(t, diskdiff.OfNoPackage, f.Group)
				switch f.Path {
				case "/a/content":
					size := int64(3)
					require.Equal(t, &diskdiff.State{Type: "file", Mode: "0644", Owner: "0:0", Size: &size, Links: 1, SHA256: "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"}, f.Before)
				case "/a/device":
					require.Equal(t, []string{"1:3", "1:5"}, []string{f.Before.Device, f.After.Device})
				case "/a/sparse":
					require.Empty(t, f.After.SHA256)
				}
			}
			require.Empty(t, compared(t, after, after).Files)
			b, err := diskdiff.CompareBlocks(t.Context(), open(t, before, 0), open(t, after, 0))
			require.NoError(t, err)
			require.Positive(t, b.Changed)
			require.Less(t, b.Changed+b.Added+b.Removed, 100)
			b, err = diskdiff.CompareBlocks(t.Context(), open(t, after, 0), open(t, after, 0))
			require.NoError(t, err)
			require.Equal(t, "0 changed (0.0 MiB), 0 added (0.0 MiB), 0 removed (0.0 MiB)", b.String())
		})
	}
}

// The formats of the disks, and their file systems, may differ.
func TestDisksOfDifferentFormatsAreCompared(t *testing.T) {
	root := tree(t, map[string]string{"a": "1"})
	before, after := image(t, "ext4", root), changed(t, image(t, "xfs", root), `printf 2 >a`)
	out, err := exec.Command("qemu-img", "convert", "-f", "raw", "-O", "qcow2", after, after+".qcow2").CombinedOutput()
	require.NoError(t, err, string(out))
	r := compared(t, before, after+".qcow2")
	require.Equal(t, []string{"~ /a: content", "- /lost+found"}, told(r))
	require.Equal(t, "xfs", r.Roots[1].FileSystem)
}

func TestDisksThatCannotBeCompared(t *testing.T) {
	root := tree(t, map[string]string{"a": "1"})
	good := image(t, "ext4", root)
	data := changed(t, good, `rm etc/os-release`)
	_, err := diskdiff.Compare(t.Context(), open(t, good, 0), open(t, data, 0), "")
	require.EqualError(t, err, "listing the files of the disk image "+data+": the ext4 file system at byte 1048576 has no /etc/os-release, so it is not the root of a Linux system; name the root partition")
	r, err := diskdiff.Compare(t.Context(), open(t, good, 1), open(t, data, 1), "")
	require.NoError(t, err)
	require.Equal(t, []string{"- /etc/os-release"}, told(r))

	_, err = diskdiff.Open(good, 2)
	require.EqualError(t, err, "comparing the disk image "+good+": the disk has no partition 2, but 1 (ext4, 335.5 MB)")
	damaged := changed(t, good, `mkdir -p var/lib/pacman/local/a-1-1`)
	_, err = diskdiff.Compare(t.Context(), open(t, good, 0), open(t, damaged, 0), "")
	require.EqualError(t, err, "listing the files of the disk image "+damaged+": reading pacman's lists of files: open /var/lib/pacman/local/a-1-1/files: no such file or directory")
	left, err := filepath.Glob("/tmp/eksnode-files-*")
	require.NoError(t, err)
	require.Empty(t, left)
}
