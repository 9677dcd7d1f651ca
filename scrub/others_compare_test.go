//go:build linux

package scrub_test

import (
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// marks are parts of every value that identifies the old machine, its cluster or
// its people. No file name, link or content of a scrubbed root has one.
var marks = []string{
	"badc0ffee",                // IDs and keys: machine, instance, agents, host keys, endpoint, certificates
	"blue-heron", "heron.corp", // the cluster's name and the company's domain
	"marjolein",     // the person
	"10.77.31.",     // addresses of the node
	"10-77-31-",     // the same in names
	"0a:77:31:",     // of its interfaces
	"424242424242",  // the AWS account
	"fd00:77:31:",   // IPv6
	"dune-orchid-9", // a password
}

// object is a file as the comparison sees it.
type object struct {
	kind, attributes, xattrs, content string
}

// objects describes all files below a folder.
func objects(t *testing.T, root string) map[string]object {
	t.Helper()
	all := map[string]object{}
	require.NoError(t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		var st unix.Stat_t
		require.NoError(t, unix.Lstat(p, &st))
		o := object{kind: d.Type().String(), attributes: fmt.Sprintf("%04o %d:%d", st.Mode&0o7777, st.Uid, st.Gid), xattrs: xattrs(t, p)}
		switch {
		case d.Type() == fs.ModeSymlink:
			o.content, err = os.Readlink(p)
			require.NoError(t, err)
		case d.Type().IsRegular():
			o.content = testkit.Content(t, p)
		}
		if name := strings.TrimPrefix(p, root); name != "" {
			all[name] = o
		}
		return nil
	}))
	return all
}

// xattrs returns the extended attributes of a file as text.
func xattrs(t *testing.T, name string) string {
	t.Helper()
	list := make([]byte, 4096)
	n, err := unix.Llistxattr(name, list)
	require.NoError(t, err)
	var all []string
	for _, key := range strings.FieldsFunc(string(list[:n]), func(r rune) bool { return r == 0 }) {
		value := make([]byte, 4096)
		n, err := unix.Lgetxattr(name, key, value)
		require.NoError(t, err)
		all = append(all, key+"="+string(value[:n]))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// differences compares a scrubbed root with its twin: "+ path" is left over,
// "- path" is lost, "~ path" differs. A folder that has no files is no leftover:
// the programs make their folders, and the scrub removes only what is in them.
func differences(twin, scrubbed map[string]object) []string {
	var all []string
	for name, was := range twin {
		is, there := scrubbed[name]
		switch {
		case !there:
			all = append(all, "- "+name)
		case is != was:
			all = append(all, "~ "+name+": "+how(was, is))
		}
	}
	for name, o := range scrubbed {
		_, there := twin[name]
		switch {
		case there || o.kind == fs.ModeDir.String() || name == "/etc/eks/eksnode/scrubbed.json":
		case o.content == "":
			all = append(all, "+ "+name+" (empty)")
		default:
			all = append(all, "+ "+name)
		}
	}
	slices.Sort(all)
	return all
}

// how describes the difference of two files of one path.
func how(was, is object) string {
	var parts []string
	if was.kind != is.kind {
		parts = append(parts, fmt.Sprintf("type %s, was %s", is.kind, was.kind))
	}
	if was.attributes != is.attributes {
		parts = append(parts, fmt.Sprintf("mode and owner %s, was %s", is.attributes, was.attributes))
	}
	if was.xattrs != is.xattrs {
		parts = append(parts, fmt.Sprintf("attributes %q, was %q", is.xattrs, was.xattrs))
	}
	if was.content != is.content {
		parts = append(parts, fmt.Sprintf("%d bytes, was %d", len(is.content), len(was.content)))
	}
	return strings.Join(parts, "; ")
}

// marked lists the files with a mark in their name, link or content, also
// compressed, in UTF-16 or in base64.
func marked(t *testing.T, all map[string]object) []string {
	t.Helper()
	var found []string
	for name, o := range all {
		texts := []string{name, o.content, o.xattrs}
		if r, err := gzip.NewReader(strings.NewReader(o.content)); err == nil {
			plain, err := io.ReadAll(r)
			require.NoError(t, err)
			texts = append(texts, string(plain))
		}
		for _, m := range marks {
			if slices.ContainsFunc(texts, func(text string) bool { return hasMark(text, m) }) {
				found = append(found, name)
				break
			}
		}
	}
	slices.Sort(found)
	return found
}

func hasMark(text, mark string) bool {
	if strings.Contains(strings.ToLower(text), mark) {
		return true
	}
	if strings.Contains(text, testkit.UTF16(binary.LittleEndian, mark)) {
		return true
	}
	if len(mark) < 9 { // the encoding of a short mark occurs by chance
		return false
	}
	for shift := range 3 { // the mark's place in the groups of three bytes
		whole := (shift + len(mark)) / 3 * 4
		encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + mark))
		if strings.Contains(text, encoded[4*min(1, shift):whole]) {
			return true
		}
	}
	return false
}

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
		testkit.Bolt(t, name, string(e.text))
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
		return testkit.Gzip(e.text)
	case "hex":
		raw, err := hex.DecodeString(strings.Join(strings.Fields(string(e.text)), ""))
		require.NoError(t, err)
		return raw
	}
	return e.text
}
