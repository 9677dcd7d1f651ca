package checks

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

const module = "github.com/eksnode/packer-plugin-eksnode"

// root is the repository; tests run in their package's folder.
const root = "../.."

// tracked lists the regular files in git that exist, with slashes. Links are
// left out, because their targets are listed.
func tracked(t *testing.T) []string {
	t.Helper()
	var names []string
	for name := range strings.SplitSeq(strings.TrimSuffix(run(t, "git", "ls-files", "-z"), "\x00"), "\x00") {
		if info, err := os.Lstat(filepath.Join(root, name)); err == nil && info.Mode().IsRegular() {
			names = append(names, name)
		}
	}
	require.NotEmpty(t, names, "the tests need a git repository, not only its sources")
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	return testkit.Content(t, filepath.Join(root, name))
}

func write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(name, []byte(text), 0o755))
}

// run runs a program in the repository and returns its standard output.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	return testkit.In(t, root, name, args...)
}

// source is one tracked Go file.
type source struct {
	name string
	text string
	file *ast.File
	set  *token.FileSet
}

func (s source) isTest() bool { return strings.HasSuffix(s.name, "_test.go") }

func (s source) isGenerated() bool { return ast.IsGenerated(s.file) }

// room returns the folder of a file: one at the top, or one of internal.
func (s source) room() string { return firstRoom(s.name) }

// firstRoom returns the room of a path in the repository: the innermost folder with a
// row in mayImport, else the first folder, or the first two in internal.
func firstRoom(name string) string {
	parts := strings.Split(name, "/")
	for n := len(parts); n > 0; n-- {
		if room := strings.Join(parts[:n], "/"); mayImport[room] != nil {
			return room
		}
	}
	if parts[0] == "internal" {
		return strings.Join(parts[:min(2, len(parts))], "/")
	}
	return parts[0]
}

// at returns file and line of a position, for messages.
func (s source) at(p token.Pos) string {
	position := s.set.Position(p)
	return s.name + ":" + strconv.Itoa(position.Line)
}

func parsed(t *testing.T, name, text string) source {
	t.Helper()
	s := source{name: name, text: text, set: token.NewFileSet()}
	var err error
	s.file, err = parser.ParseFile(s.set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	return s
}

// sources parses every tracked Go file.
func sources(t *testing.T) []source {
	t.Helper()
	var list []source
	for _, name := range tracked(t) {
		if path.Ext(name) != ".go" || strings.Contains(name, "/testdata/") {
			continue
		}
		list = append(list, parsed(t, name, read(t, name)))
	}
	require.NotEmpty(t, list)
	return list
}

// exists reports whether the repository has a file or folder of that name.
func exists(name string) bool {
	_, err := fs.Stat(os.DirFS(root), path.Clean(name))
	return err == nil
}
