//go:build linux

package diskdiff_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/diskaudit"
	"github.com/eksnode/packer-plugin-eksnode/internal/diskdiff"
)

func TestMain(m *testing.M) {
	if code, child := diskaudit.Child(context.Background()); child {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// sh runs a script with arguments, in a mount namespace of its own.
func sh(t *testing.T, script string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "unshare", append([]string{"-m", "sh", "-euc", script, "sh"}, args...)...).CombinedOutput()
	require.NoError(t, err, "%s: %s", script, out)
	return string(out)
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
	for name, text := range files {
		write(t, root, name, text)
	}
	write(t, root, "etc/os-release", "ID=debian\nVERSION_ID=13\n")
	return root
}

func write(t *testing.T, root, name, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
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

// compared compares two disks.
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
