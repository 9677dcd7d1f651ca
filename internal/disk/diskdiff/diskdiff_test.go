//go:build linux

package diskdiff_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskaudit"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskdiff"
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
			require.Equal(t, diskaudit.Root{Partition: 1, FileSystem: kind}, r.Roots[0])
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
	testkit.Run(t, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", after, after+".qcow2")
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
	require.EqualError(t, err, "listing the files of the disk image "+damaged+": reading pacman's database: open /var/lib/pacman/local/a-1-1/files: no such file or directory")
	require.Empty(t, testkit.Glob(t, "/tmp/eksnode-files-*"))
}

// Names of 255 bytes, with newlines, escape sequences and bytes that are not UTF-8 stay
// apart in JSON. Paths may be longer than the kernel accepts.
func TestHostileNames(t *testing.T) {
	long := strings.Repeat("n", 255)
	before := image(t, "ext4", tree(t, map[string]string{"a\nb": "1", "a": "1", "b/c": "1", "b.c": "1", "b\x01": "1"}))
	after := changed(t, before, `
printf 2 >"$(printf 'a\nb')"; printf 2 >a; printf 2 >b.c; printf 2 >b/c; touch b/d; printf 2 >"$(printf 'b\001')"
touch "$(printf '\377bad')" "$(printf '\033[2Jclear')" "`+long+`" '"\xffbad"' "$(printf '\342\200\256txt')"
ln -s "$(printf '\377\nx')" link
python3 - <<'END'
import os
for n in range(40):
    os.mkdir('d' * 200); os.chdir('d' * 200)
open('deep', 'w').close()
END`)
	r := compared(t, before, after)
	list := told(r)
	require.Equal(t, []string{
		"+ /\x1b[2Jclear", "+ /\"\\xffbad\"", "~ /a: content", "~ /a\nb: content", "~ /b/c: content", "+ /b/d", "~ /b\x01: content", "~ /b.c: content",
	}, list[:8])
	require.Equal(t, []string{"+ /link", "+ /" + long, "+ /\u202etxt", `+ "/\xffbad"`}, list[len(list)-4:])
	require.Len(t, list, 8+41+4)
	require.Greater(t, len(list[48]), 8000)
	text, err := json.Marshal(r)
	require.NoError(t, err)
	require.True(t, utf8.Valid(text))
	require.NotContains(t, string(text), "\ufffd")
	for _, f := range r.Files {
		if f.Name == "/link" {
			require.Equal(t, `"\xff\nx"`, f.After.Target)
		}
	}
}

func TestMain(m *testing.M) {
	if code, child := diskaudit.Child(context.Background(), nil); child {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// sh runs a script with arguments, in a mount namespace of its own.
func sh(t *testing.T, script string, args ...string) string {
	t.Helper()
	return testkit.Run(t, "unshare", append([]string{"-m", "sh", "-euc", script, "sh"}, args...)...)
}

// mkfs are scripts that make a file system of the folder $2 in the file $1.
var mkfs = map[string]string{
	"ext4":  `mkfs.ext4 -q -d "$2" "$1"`,
	"xfs":   `mkfs.xfs -q "$1"; mount -o loop "$1" /mnt; cp -a "$2/." /mnt; umount /mnt`,
	"btrfs": `mkfs.btrfs -q "$1"; mount -o loop "$1" /mnt; btrfs -q subvolume create /mnt/root; cp -a "$2/." /mnt/root; umount /mnt`,
}

// image makes a raw disk with one partition that has the files of a folder.
func image(t *testing.T, kind, root string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk.raw")
	sh(t, `truncate -s 320M "$1"; `+mkfs[kind]+`; truncate -s 324M "$3"
printf 'label: gpt\nstart=2048, size=655360, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709\n' | sfdisk -q "$3"
dd if="$1" of="$3" bs=1M seek=1 conv=notrunc,sparse status=none; rm "$1"`, path+".part", root, path)
	return path
}

// tree makes a folder with the files of an image root.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.Chmod(root, 0o755))
	hosttest.Lay(t, root, files)
	hosttest.Lay(t, root, map[string]string{"etc/os-release": "ID=debian\nVERSION_ID=13\n"})
	return root
}

// changed copies a disk and runs a script in its root.
func changed(t *testing.T, path, script string) string {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "disk.raw")
	sh(t, `cp --sparse=always "$1" "$2"; mount -o loop,offset=1048576 "$2" /mnt; cd /mnt; [ -e etc ] || cd root
`+script+`
cd /; umount /mnt`, path, copied)
	return copied
}

func open(t *testing.T, path string, root int) diskdiff.Disk {
	t.Helper()
	d, err := diskdiff.Open(path, root)
	require.NoError(t, err)
	t.Cleanup(func() { d.Image.Close() })
	return d
}

func compared(t *testing.T, before, after string) diskdiff.Result {
	t.Helper()
	r, err := diskdiff.Compare(t.Context(), open(t, before, 0), open(t, after, 0), t.TempDir())
	require.NoError(t, err)
	return r
}

// told lists the files of a result: the sign, the path, and what differs.
func told(r diskdiff.Result) []string {
	list := []string{}
	for _, f := range r.Files {
		switch {
		case f.Before == nil:
			list = append(list, "+ "+f.Path)
		case f.After == nil:
			list = append(list, "- "+f.Path)
		default:
			list = append(list, "~ "+f.Path+": "+strings.Join(f.Differs, ", "))
		}
	}
	return list
}
