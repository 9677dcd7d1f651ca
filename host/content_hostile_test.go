//go:build linux

package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// Reading something other than a regular file neither hangs nor takes unbounded
// memory, and the error names the file.
func TestReadRefusesIrregularFiles(t *testing.T) {
	i := newImage(t)
	at := func(name string) string { return filepath.Join(i.root, name) }
	require.NoError(t, os.WriteFile(at("etc/sparse"), nil, 0o644))
	require.NoError(t, os.Truncate(at("etc/sparse"), 3<<30))
	require.NoError(t, unix.Mkfifo(at("etc/fifo"), 0o644))
	require.NoError(t, unix.Mknod(at("etc/zero"), unix.S_IFCHR|0o644, int(unix.Mkdev(1, 5))))
	require.NoError(t, unix.Mknod(at("etc/null"), unix.S_IFCHR|0o644, int(unix.Mkdev(1, 3))))
	require.NoError(t, os.Mkdir(at("etc/folder"), 0o755))
	i.link(t, "/etc/fifo", "etc/to-fifo")
	i.link(t, "/etc/null", "etc/masked")
	i.put(t, "etc/file", "text")
	i.link(t, "file", "etc/to-file")
	holder, err := os.OpenFile(at("etc/fifo"), os.O_RDWR, 0) // otherwise opening the FIFO would block
	require.NoError(t, err)
	defer holder.Close()
	for name, want := range map[string]string{
		"sparse": "read /etc/sparse: larger than 32 MiB", "fifo": "open /etc/fifo: not a regular file", "zero": "open /etc/zero: not a regular file",
		"folder": "open /etc/folder: not a regular file", "to-fifo": "open /etc/to-fifo: not a regular file",
	} {
		_, err := i.Content("/etc/" + name)
		assert.EqualError(t, err, want)
	}
	require.NoError(t, i.Files.WriteFile("/etc/to-file", []byte("text"), Attributes{Mode: 0o644}))
	for _, name := range []string{"fifo", "zero", "folder", "to-fifo", "masked"} {
		before := stat(t, at("etc/"+name)).Ino
		assert.EqualError(t, i.Files.WriteFile("/etc/"+name, []byte("new"), Attributes{Mode: 0o644}),
			"write /etc/"+name+": not a regular file, which a write would replace; remove it first")
		assert.Equal(t, before, stat(t, at("etc/"+name)).Ino, name)
	}
	text := []byte("text")
	for name, want := range map[string][]byte{"file": text, "to-file": text, "masked": {}, "missing": nil} {
		got, err := i.Content("/etc/" + name)
		require.NoError(t, err, name)
		assert.Equal(t, want, got, name)
	}
	_, err = i.Content("/etc/file/x")
	assert.EqualError(t, err, "open /etc/file/x: not a directory")
}

func TestReadHasALimit(t *testing.T) {
	i := newImage(t)
	i.put(t, "etc/file", "text")
	text, err := i.Files.Read("/etc/file", 4)
	require.NoError(t, err)
	assert.Equal(t, "text", string(text))
	_, err = i.Files.Read("/etc/file", 3)
	require.ErrorContains(t, err, "read /etc/file: larger than")
}

// Truncate empties a file with several hard links, inside the root and outside,
// only under the given name.
func TestTruncateKeepsOtherHardLinks(t *testing.T) {
	i := newImage(t)
	i.put(t, "var/log/f", "text")
	file, outside := filepath.Join(i.root, "var/log/f"), filepath.Join(i.outside, "tree-evil", "linked")
	require.NoError(t, os.Chown(file, 12, 34))
	require.NoError(t, unix.Chmod(file, 0o2640))
	require.NoError(t, unix.Setxattr(file, "user.label", []byte("log"), 0))
	require.NoError(t, os.Link(file, outside))
	require.NoError(t, os.Link(file, filepath.Join(i.root, "var/other")))
	i.untouched(t)
	require.NoError(t, i.Files.Truncate("/var/log/f"))
	now := stat(t, file)
	assert.Zero(t, now.Size)
	assert.Equal(t, uint64(1), uint64(now.Nlink))
	assert.Equal(t, []uint32{unix.S_IFREG | 0o2640, 12, 34}, []uint32{now.Mode, now.Uid, now.Gid})
	value := make([]byte, 8)
	n, err := unix.Getxattr(file, "user.label", value)
	require.NoError(t, err)
	assert.Equal(t, "log", string(value[:n]))
	assert.Equal(t, "text", testkit.Content(t, filepath.Join(i.root, "var/other")))
	assert.Len(t, testkit.Names(t, filepath.Dir(file)), 1, "no temporary file remains")
	i.link(t, "/var/log/f", "var/log/alias")
	assert.ErrorIs(t, i.Files.Truncate("/var/log/alias"), unix.ELOOP)

	require.NoError(t, i.Files.Unshare("/var/other")) // it shares its inode with outside
	shared := stat(t, filepath.Join(i.root, "var/other"))
	assert.Equal(t, uint64(1), uint64(shared.Nlink))
	require.NoError(t, i.Files.Unshare("/var/other"))
	assert.Equal(t, shared.Ino, stat(t, filepath.Join(i.root, "var/other")).Ino, "a second Unshare must do nothing")
	assert.Equal(t, "text", testkit.Content(t, filepath.Join(i.root, "var/other")))

	inode := now.Ino
	require.NoError(t, os.WriteFile(file, []byte("again"), 0))
	require.NoError(t, i.Files.Truncate("/var/log/f"))
	assert.Equal(t, inode, stat(t, file).Ino, "a file with one name must keep its inode, because a daemon may write into it")
	require.NoError(t, unix.Mkfifo(file+".fifo", 0o600))
	assert.EqualError(t, i.Files.Truncate("/var/log/f.fifo"), "truncate /var/log/f.fifo: not a regular file")
}
