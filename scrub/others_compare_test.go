//go:build linux

package scrub_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
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
			text, err := os.ReadFile(p)
			require.NoError(t, err)
			o.content = string(text)
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
	var wide bytes.Buffer
	for _, u := range utf16.Encode([]rune(mark)) {
		wide.Write([]byte{byte(u), byte(u >> 8)})
	}
	if strings.Contains(text, wide.String()) {
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
