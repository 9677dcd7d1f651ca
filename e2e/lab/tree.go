package lab

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Tree describes files: path → properties.
type Tree map[string]string

// Since lists the differences from an earlier tree: "- path" removed, "+ path"
// added, "~ path (properties, was properties)".
func (now Tree) Since(before Tree) []string {
	var changes []string
	for _, path := range slices.Sorted(maps.Keys(now)) {
		if old, there := before[path]; !there {
			changes = append(changes, "+ "+path)
		} else if old != now[path] {
			changes = append(changes, fmt.Sprintf("~ %s (%s, was %s)", path, now[path], old))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(before)) {
		if _, there := now[path]; !there {
			changes = append(changes, "- "+path)
		}
	}
	return changes
}

// Note records everything below a folder: type and mode, owner, device, link
// target, extended attributes, and the result of the content function for
// files. prefix is put before the paths. Paths that match skip are left out,
// with everything below.
func (now Tree) Note(t *testing.T, folder, prefix string, skip func(name string) bool, content func(name, path string) string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := prefix + strings.TrimPrefix(path, strings.TrimSuffix(folder, "/"))
		if skip(name) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		note := fmt.Sprintf("%o %d:%d %x", st.Mode, st.Uid, st.Gid, st.Rdev)
		switch {
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			note += " -> " + target
		case d.Type().IsRegular():
			note += " " + content(name, path)
		}
		now[name] = note + attributes(t, path)
		return nil
	}))
}

// Content returns the content of a file.
func Content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// attributes returns the extended attributes as text.
func attributes(t *testing.T, path string) string {
	t.Helper()
	names, value := make([]byte, 4096), make([]byte, 4096)
	size, err := unix.Llistxattr(path, names)
	require.NoError(t, err, path)
	text := ""
	for _, name := range slices.Sorted(strings.FieldsFuncSeq(string(names[:size]), func(r rune) bool { return r == 0 })) {
		size, err := unix.Lgetxattr(path, name, value)
		require.NoError(t, err, path)
		text += fmt.Sprintf(" %s=%x", name, value[:size])
	}
	return text
}
