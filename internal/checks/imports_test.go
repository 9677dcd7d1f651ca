package checks

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

//go:embed testdata/imports.yaml
var importsFile []byte

// mayImport are the rooms and which others each may import. onlyIn lists, by module, the
// rooms that may import it.
var mayImport, onlyIn = func() (map[string][]string, map[string][]string) {
	var table struct{ Rooms, OnlyIn map[string][]string }
	if err := yaml.UnmarshalStrict(importsFile, &table); err != nil {
		panic(err) // no test can run
	}
	return table.Rooms, table.OnlyIn
}()

// listed is a package in the output of `go list -json`.
type listed struct {
	ImportPath string
	Imports    []string
}

// roomOf returns the room of one of the module's packages: "." for the root, ""
// for packages of other modules.
func roomOf(importPath string) string {
	if importPath == module {
		return "."
	}
	rest, ok := strings.CutPrefix(importPath, module+"/")
	if !ok {
		return ""
	}
	return firstRoom(rest)
}

func packages(t *testing.T) []listed {
	t.Helper()
	var list []listed
	d := json.NewDecoder(strings.NewReader(run(t, "go", "list", "-tags", "e2e", "-json=ImportPath,Imports", "./...")))
	for {
		var p listed
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		list = append(list, p)
	}
	require.NotEmpty(t, list)
	return list
}

// against lists the imports of a package that these tables forbid.
func against(p listed) []string {
	var wrong []string
	from := roomOf(p.ImportPath)
	allowed, known := mayImport[from]
	if !known {
		return []string{fmt.Sprintf("%s: the room %q has no row in mayImport; give it one, and a place in docs/design/architecture.md", p.ImportPath, from)}
	}
	for _, imported := range p.Imports {
		if to := roomOf(imported); to != "" && to != from && !slices.Contains(allowed, to) {
			wrong = append(wrong, fmt.Sprintf("%s imports %s: %s may import only %s", p.ImportPath, imported, from, strings.Join(allowed, ", ")))
		}
		for library, rooms := range onlyIn {
			data := strings.HasSuffix(imported, "/aws") || strings.HasSuffix(imported, "/types") // and no client
			if (imported == library || strings.HasPrefix(imported, library+"/")) && !data && !slices.Contains(rooms, from) && from != "e2e" {
				wrong = append(wrong, fmt.Sprintf("%s imports %s: only %s may", p.ImportPath, imported, strings.Join(rooms, ", ")))
			}
		}
	}
	return wrong
}

func TestRoomsImportOneWay(t *testing.T) {
	for _, p := range packages(t) {
		assert.Empty(t, against(p))
	}
}

// The table must not allow circular imports.
func TestAllowedImportsHaveNoCycle(t *testing.T) {
	left := map[string][]string{}
	for room, allowed := range mayImport {
		left[room] = slices.Clone(allowed)
	}
	for len(left) > 0 {
		before := len(left)
		for room, allowed := range left {
			free := !slices.ContainsFunc(allowed, func(to string) bool { _, there := left[to]; return there })
			if free {
				delete(left, room)
			}
		}
		require.Less(t, len(left), before, "these rooms import each other: %v", left)
	}
}

func TestForbiddenImportsAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		p    listed
		want string
	}{
		"upwards": {listed{module + "/scrub", []string{"fmt", module + "/distros"}},
			module + "/scrub imports " + module + "/distros: scrub may import only host, plan, internal/image/manifest, internal/image, internal/text/strictjson, internal/text/surface, internal/text/expand, internal/text/show"},
		"the tests' harness in the product": {listed{module + "/internal/session/agent", []string{module + "/e2e/tools"}},
			module + "/internal/session/agent imports " + module + "/e2e/tools: internal/session/agent may import only host, plan, scrub, internal/asset, provisioner"},
		"the SDK outside the plugin": {listed{module + "/internal/session/agent",
			[]string{"github.com/hashicorp/packer-plugin-sdk/packer"}},
			module + "/internal/session/agent imports github.com/hashicorp/packer-plugin-sdk/packer: only plugin may"},
		"a new room": {listed{module + "/util", nil},
			module + `/util: the room "util" has no row in mayImport; give it one, and a place in docs/design/architecture.md`},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, []string{c.want}, against(c.p)) })
	}
	assert.Empty(t, against(listed{module + "/plugin/scrub", []string{module + "/plugin/remote", module + "/scrub", "github.com/hashicorp/hcl/v2/hcldec"}}))
}

// docs/design/architecture.md draws the rooms; none may be missing there.
func TestTheArchitectureNamesEveryRoom(t *testing.T) {
	text := read(t, "docs/design/architecture.md")
	for room := range mayImport {
		assert.Contains(t, text, "`"+room+"/`", "docs/design/architecture.md does not describe the room %s", room)
	}
}

// `go mod tidy` changes neither go.mod nor go.sum. With -diff it prints the
// changes and fails.
func TestModulesAreTidy(t *testing.T) {
	run(t, "go", "mod", "tidy", "-diff")
}

// notForOthers are packages that are useless to programs outside this module,
// or cannot be imported there.
var notForOthers = regexp.MustCompile(`/(internal|e2e|plugin|docs|examples)(/|$)`)

// A program outside this module can import every public package without this
// module's replace lines, which apply to this module only.
func TestOtherModulesCanImportPublicPackages(t *testing.T) {
	var public []string
	for name := range strings.FieldsSeq(run(t, "go", "list", "-f", `{{if and .GoFiles (ne .Name "main")}}{{.ImportPath}}{{end}}`, "./...")) {
		if !notForOthers.MatchString(strings.TrimPrefix(name, module)) {
			public = append(public, name)
		}
	}
	for _, name := range []string{"scrub", "distros", "userdata"} {
		require.Contains(t, public, module+"/"+name)
	}
	here, err := filepath.Abs(root)
	require.NoError(t, err)
	outside := t.TempDir()
	write(t, filepath.Join(outside, "go.mod"), fmt.Sprintf("module example.com/outside\n\ngo 1.26.0\n\nrequire %s v0.0.0\n\nreplace %[1]s => %s\n", module, here))
	write(t, filepath.Join(outside, "go.sum"), read(t, "go.sum"))
	write(t, filepath.Join(outside, "outside.go"),
		"package outside\n\nimport (\n\t_ \""+strings.Join(public, "\"\n\t_ \"")+"\"\n)\n")
	build := exec.CommandContext(t.Context(), "go", "build", "-mod=mod", ".")
	build.Dir = outside
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	testkit.Output(t, build)
}

// Public signatures and exported fields use types with a public name: those of public
// packages, and internal ones with an alias in a public package. Of an alias' type, the
// fields and methods are public too.
func TestPublicSignaturesNameNoInternalTypes(t *testing.T) {
	exports := map[string]string{}
	var public []string
	for line := range strings.Lines(run(t, "go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Name}} {{.Export}}", "./...")) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		exports[f[0]] = f[2]
		if rest, ours := strings.CutPrefix(f[0], module); ours && f[1] != "main" && !strings.HasPrefix(rest, "/cmd") && !notForOthers.MatchString(rest) {
			public = append(public, f[0])
		}
	}
	require.Contains(t, public, module+"/scrub")
	from := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	objects, aliased := map[string]types.Object{}, map[types.Object]bool{}
	for _, name := range public {
		p, err := from.Import(name)
		require.NoError(t, err)
		for _, n := range p.Scope().Names() {
			o := p.Scope().Lookup(n)
			if !o.Exported() {
				continue
			}
			objects[strings.TrimPrefix(name, module)+"."+n] = o
			if alias, ok := o.(*types.TypeName); ok && alias.IsAlias() {
				if named, ok := types.Unalias(o.Type()).(*types.Named); ok {
					aliased[named.Obj()] = true
				}
			}
		}
	}
	require.NotEmpty(t, aliased)
	var found []string
	for at, o := range objects {
		w := walk{seen: map[types.Type]bool{}, aliased: aliased}
		w.object(at, o)
		found = append(found, w.found...)
	}
	slices.Sort(found)
	assert.Empty(t, slices.Compact(found))
}

// walk finds the names in a public declaration that lead to types nobody else can
// name.
type walk struct {
	seen    map[types.Type]bool
	aliased map[types.Object]bool
	found   []string
}

func (w *walk) object(at string, o types.Object) {
	w.visit(at, o.Type())
	named, ok := types.Unalias(o.Type()).(*types.Named)
	if _, isType := o.(*types.TypeName); !ok || !isType {
		return
	}
	w.visit(at, named.Underlying())
	for m := range named.Methods() {
		if m.Exported() {
			w.visit(at+"."+m.Name(), m.Type())
		}
	}
}

func (w *walk) visit(at string, t types.Type) {
	switch t := types.Unalias(t).(type) {
	case *types.Named:
		p := t.Obj().Pkg()
		internal := p != nil && strings.HasPrefix(p.Path(), module) && (!t.Obj().Exported() || strings.Contains(p.Path(), "/internal/"))
		if internal && !w.aliased[t.Obj()] {
			w.found = append(w.found, at)
		}
		for a := range t.TypeArgs().Types() {
			w.visit(at, a)
		}
	case interface{ Elem() types.Type }: // pointers, slices, arrays, channels, maps
		if m, ok := t.(*types.Map); ok {
			w.visit(at, m.Key())
		}
		w.visit(at, t.Elem())
	case *types.Signature:
		for _, list := range []*types.Tuple{t.Params(), t.Results()} {
			for v := range list.Variables() {
				w.visit(at, v.Type())
			}
		}
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() && !w.seen[t] {
				w.visit(at+"."+f.Name(), f.Type())
			}
		}
		w.seen[t] = true
	case *types.Interface:
		for m := range t.ExplicitMethods() {
			w.visit(at+"."+m.Name(), m.Type())
		}
		for e := range t.EmbeddedTypes() {
			w.visit(at, e)
		}
	}
}
