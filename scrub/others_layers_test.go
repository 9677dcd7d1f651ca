//go:build linux

package scrub_test

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// An image root is a list of layers: archives in testdata/roots. The title of a
// file in an archive is its path and its attributes:
//
//	/etc/shadow 0000           a mode; 0644 is the default, 0755 that of folders
//	/var/log/btmp 0660 0:22    a numeric owner; 0:0 is the default
//	/var/lib/kubelet/          a folder
//	/etc/localtime -> ../x     a link
//	/boot/x absent             the file of an earlier layer is removed
//	/etc/hosts append          the text is added to the file of an earlier layer
//	/etc/x xattr=user.a=b      an extended attribute
//	/var/log/a.gz gzip         the file is the text, compressed
//	/var/lib/x.key hex         the text has the file's bytes in hexadecimal digits
//	/swapfile size=4096        the file is filled with zeros up to this size
//	/var/lib/x/meta.db bolt    each line is a bucket or key of a bbolt database
//
// Files that differ only by the machine are short: they have the form of the
// program's own files, with values of the machine in the comment of marks.
type entry struct {
	path, link   string
	mode         fs.FileMode
	uid, gid     int
	form         string // absent, append, gzip, hex, bolt, or empty
	size         int64
	xattr, value string
	text         []byte
}

// layer reads an archive.
func layer(t *testing.T, name string) []entry {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata/roots", name+".txtar"))
	require.NoError(t, err)
	require.NotEmpty(t, archive.Files, name)
	seen := map[string]bool{}
	var entries []entry
	for _, f := range archive.Files {
		e := parseTitle(t, f.Name)
		e.text = f.Data
		require.False(t, seen[e.path] && e.form != "append", "%s: %s occurs twice", name, e.path)
		seen[e.path] = true
		entries = append(entries, e)
	}
	return entries
}

// parseTitle reads the title of a file in an archive.
func parseTitle(t *testing.T, title string) entry {
	t.Helper()
	words := strings.Fields(title)
	e := entry{path: strings.ReplaceAll(words[0], `\040`, " "), mode: 0o644}
	require.True(t, strings.HasPrefix(e.path, "/"), "%s: the path is not absolute", title)
	if strings.HasSuffix(e.path, "/") {
		e.mode = fs.ModeDir | 0o755
	}
	for i := 1; i < len(words); i++ {
		key, value, _ := strings.Cut(words[i], "=")
		uid, gid, isOwner := strings.Cut(words[i], ":")
		var err error
		switch {
		case words[i] == "->":
			i++
			e.link, e.mode = words[i], fs.ModeSymlink
		case key == "size":
			e.size, err = strconv.ParseInt(value, 10, 64)
		case key == "xattr":
			e.xattr, e.value, _ = strings.Cut(value, "=")
		case words[i][0] == '0' && !isOwner:
			var mode uint64
			mode, err = strconv.ParseUint(words[i], 8, 32)
			e.mode = e.mode&fs.ModeType | fs.FileMode(mode)
		case isOwner:
			e.uid, err = strconv.Atoi(uid)
			require.NoError(t, err, title)
			e.gid, err = strconv.Atoi(gid)
		default:
			require.Contains(t, []string{"absent", "append", "gzip", "hex", "bolt"}, words[i], "%s: unknown attribute", title)
			e.form = words[i]
		}
		require.NoError(t, err, title)
	}
	return e
}

// assemble makes an image root of layers; later layers win.
func assemble(t *testing.T, layers ...string) (root string) {
	t.Helper()
	root = t.TempDir()
	require.NoError(t, os.Chmod(root, 0o755))
	for _, name := range layers {
		for _, e := range layer(t, name) {
			e.write(t, root)
		}
	}
	return root
}

func (e entry) write(t *testing.T, root string) {
	t.Helper()
	name := filepath.Join(root, e.path)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	switch {
	case e.link != "":
		require.NoError(t, os.RemoveAll(name))
		require.NoError(t, os.Symlink(e.link, name))
	case e.mode.IsDir():
		require.NoError(t, os.MkdirAll(name, 0o755))
	case e.form == "absent":
		require.NoError(t, os.Remove(name))
		return
	case e.form == "bolt":
		e.writeBolt(t, name)
	case e.form == "append":
		f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.Write(e.text)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		return // keeps mode and owner
	default:
		require.NoError(t, os.WriteFile(name, e.content(t), 0o600))
	}
	if e.size > 0 {
		require.NoError(t, os.Truncate(name, e.size))
	}
	require.NoError(t, os.Lchown(name, e.uid, e.gid))
	if e.link == "" { // chmod(2) takes the raw bits, also 01777
		require.NoError(t, unix.Chmod(name, uint32(e.mode)&0o7777))
	}
	if e.xattr != "" {
		require.NoError(t, unix.Lsetxattr(name, e.xattr, []byte(e.value), 0))
	}
}

func (e entry) content(t *testing.T) []byte {
	t.Helper()
	switch e.form {
	case "gzip":
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, err := w.Write(e.text)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return out.Bytes()
	case "hex":
		raw, err := hex.DecodeString(strings.Join(strings.Fields(string(e.text)), ""))
		require.NoError(t, err)
		return raw
	}
	return e.text
}

// writeBolt makes a database such as containerd's. A line "a/b/c" is a chain of
// buckets, and "a/b = text" a key in bucket a.
func (e entry) writeBolt(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(name))
	db, err := bbolt.Open(name, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		for line := range strings.Lines(string(e.text)) {
			chain, value, isKey := strings.Cut(strings.TrimSpace(line), " = ")
			parts := strings.Split(chain, " ")
			last := len(parts)
			if isKey {
				last--
			}
			b, err := tx.CreateBucketIfNotExists([]byte(parts[0]))
			for _, part := range parts[1:last] {
				if err == nil {
					b, err = b.CreateBucketIfNotExists([]byte(part))
				}
			}
			if err == nil && isKey {
				err = b.Put([]byte(parts[last]), []byte(value))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}))
	require.NoError(t, db.Close())
}
