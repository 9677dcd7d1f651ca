package testkit

import (
	"fmt"
	"io/fs"
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

// TreeOf records everything below a folder, with the content of files. The folder itself is "".
func TreeOf(t testing.TB, folder string) Tree {
	t.Helper()
	all := Tree{}
	all.Note(t, folder, "", nil, func(_, path string) string { return Content(t, path) })
	return all
}

// Changes lists the differences from an earlier tree, sorted: "- path" removed, "+ path" added,
// "~ path" other properties.
func (now Tree) Changes(before Tree) []string {
	var changes []string
	for path, properties := range now {
		if old, there := before[path]; !there {
			changes = append(changes, "+ "+path)
		} else if old != properties {
			changes = append(changes, "~ "+path)
		}
	}
	for path := range before {
		if _, there := now[path]; !there {
			changes = append(changes, "- "+path)
		}
	}
	slices.Sort(changes)
	return changes
}

// Since is Changes with the properties: "~ path (properties, was properties)".
func (now Tree) Since(before Tree) []string {
	changes := now.Changes(before)
	for i, change := range changes {
		if path, other := strings.CutPrefix(change, "~ "); other {
			changes[i] += fmt.Sprintf(" (%s, was %s)", now[path], before[path])
		}
	}
	return changes
}

// Note records everything below a folder: type and mode, owner, number of a device, link target,
// extended attributes, and the result of the content function for files. prefix is put before the
// paths. Paths that match skip are left out, with everything below; nil leaves out nothing.
func (now Tree) Note(t testing.TB, folder, prefix string, skip func(name string) bool,
	content func(name, path string) string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := prefix + strings.TrimPrefix(path, strings.TrimSuffix(folder, "/"))
		if skip != nil && skip(name) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		note := fmt.Sprintf("%o %d:%d", st.Mode, st.Uid, st.Gid)
		switch {
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			note += " -> " + target
		case d.Type().IsRegular():
			note += " " + content(name, path)
		case d.Type()&fs.ModeDevice != 0:
			note += fmt.Sprintf(" %x", st.Rdev)
		}
		now[name] = note + attributes(t, path)
		return nil
	}))
}

func attributes(t testing.TB, path string) string {
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
