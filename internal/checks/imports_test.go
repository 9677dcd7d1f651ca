package checks

import (
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

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// mayImport are the rooms and which others each may import: a change of this
// table is a change of the architecture, and of docs/design/architecture.md.
var mayImport = map[string][]string{
	"internal/image":           {"host"},
	"internal/version":         {"internal/text/show"},
	"internal/text/strictjson": {"internal/text/show"},
	"internal/text/surface":    {},
	"internal/text/show":       {},
	"internal/text/expand":     {},
	"internal/build/sandbox":   {},
	"host":                     {"internal/text/show"},
	"plan":                     {"host", "internal/version", "internal/text/surface", "internal/text/show"},
	"internal/session/console": {"plan", "internal/text/show"},
	"internal/session/page":    {"plan", "internal/text/show"},
	"internal/disk":            {"plan", "internal/text/show"},
	"internal/image/manifest":  {"host", "internal/text/strictjson"},
	"bootstrap": {"host", "plan", "internal/image/manifest", "internal/image", "internal/version",
		"internal/text/strictjson", "internal/text/show"},
	"internal/diagnose": {"host", "scrub", "internal/text/expand", "internal/text/strictjson", "internal/text/show",
		"internal/text/surface", "internal/version"},
	"internal/awsapi":       {"internal/text/show", "internal/text/surface"},
	"internal/ami/snapshot": {"internal/awsapi", "internal/text/show", "internal/text/surface"},
	"internal/ami/attest": {"plan", "internal/awsapi", "internal/image/manifest", "internal/text/show",
		"internal/ami/snapshot", "internal/version"},
	"internal/ami/amiimport": {"distros", "internal/ami/attest", "internal/awsapi", "internal/image/manifest",
		"internal/disk", "internal/disk/diskaudit", "internal/ami/snapshot", "internal/packercheck",
		"internal/text/show", "internal/text/surface", "plan", "scrub"},
	"internal/disk/diskaudit": {".", "host", "plan", "scrub", "internal/image", "internal/disk",
		"internal/image/manifest", "internal/text/show", "internal/text/surface"},
	"internal/build/diskbuild": {"distros", "host", "internal/asset", "internal/awsapi", "internal/ami/snapshot",
		"internal/disk", "internal/disk/diskaudit", "internal/build/sandbox", "internal/text/expand", "internal/text/show",
		"internal/text/surface", "plan"},
	"internal/disk/diskdiff": {"scrub", "internal/disk", "internal/disk/diskaudit"},
	"userdata":               {"bootstrap", "plan", "internal/version", "internal/text/strictjson", "internal/text/show"},
	"internal/preflight": {"internal/awsapi", "internal/clustersetup", "internal/text/strictjson", "userdata",
		"internal/version", "internal/text/show"},
	"internal/clustersetup": {"internal/awsapi", "internal/version", "internal/text/show"},
	"internal/packercheck":  {"internal/text/surface", "scrub"},
	"scrub": {"host", "plan", "internal/image/manifest", "internal/image", "internal/text/strictjson",
		"internal/text/surface", "internal/text/expand", "internal/text/show"},
	"distros": {"host", "plan", "scrub", "internal/text/surface", "internal/version",
		"internal/text/show"},
	"internal/asset": {"host", "plan", "internal/image/manifest", "internal/text/strictjson",
		"internal/version", "internal/text/surface", "internal/text/show"},
	"provisioner": {"host", "plan", "internal/image/manifest", "internal/image", "scrub", "distros",
		"internal/asset", "internal/version", "internal/text/surface", "internal/text/show"},
	".": {"host", "plan", "scrub", "distros", "provisioner", "userdata", "internal/version",
		"internal/text/surface"},
	"internal/session/agent": {"host", "plan", "scrub", "internal/asset", "provisioner"},
	"cmd": {".", "internal/ami/attest", "internal/ami/amiimport", "internal/ami/snapshot",
		"internal/disk", "internal/disk/diskaudit", "internal/build/diskbuild", "internal/disk/diskdiff", "internal/diagnose", "host", "plan", "scrub", "distros", "provisioner", "internal/asset", "internal/image/manifest", "internal/session/agent", "bootstrap", "internal/image", "internal/awsapi", "userdata", "internal/preflight", "internal/clustersetup", "internal/packercheck", "internal/text/strictjson", "internal/version", "internal/text/surface", "internal/text/show", "internal/session/console", "internal/session/page", "internal/build/sandbox"},
	"plugin": {"internal/disk", "internal/disk/diskaudit", "internal/build/diskbuild",
		"internal/ami/snapshot", "internal/ami/amiimport", "internal/image/manifest", "plan", "scrub", "distros", "provisioner", "internal/asset", "internal/session/agent", "internal/awsapi", "internal/version", "internal/text/show", "internal/session/console", "internal/session/page", "internal/text/surface"},
	"docs": {"host", "plan", "scrub", "distros", "bootstrap", "internal/asset", "internal/preflight",
		"internal/diagnose", "internal/version"},
	"internal/checks": {},
	"e2e": {"host", "plan", "internal/image/manifest", "internal/image", "scrub", "distros",
		"internal/asset", "provisioner", "internal/session/agent", "bootstrap", "internal/awsapi", "plugin", "internal/version", "internal/text/show",
		"internal/diagnose"},
}

// onlyIn lists, by module, the rooms that may import it, in addition to the
// tests. The agent stays small because it does not import the libraries of the
// plugin, of templates and of AWS.
var onlyIn = map[string][]string{
	"github.com/hashicorp/packer-plugin-sdk": {"plugin"},
	"github.com/hashicorp/hcl":               {"plugin", "internal/packercheck"},
	"github.com/zclconf/go-cty":              {"plugin", "internal/packercheck"},
	"github.com/aws/aws-sdk-go-v2":           {"internal/awsapi"},
	"github.com/in-toto/attestation":         {"internal/ami/attest"},
	"github.com/secure-systems-lab":          {"internal/ami/attest"},
}

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
var notForOthers = regexp.MustCompile(`/(internal|e2e|plugin|docs|examples|livetest)(/|$)`)

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
	write(t, filepath.Join(outside, "main.go"), "package main\n\nimport (\n\t_ \""+strings.Join(public, "\"\n\t_ \"")+"\"\n)\n\nfunc main() {}\n")
	build := exec.CommandContext(t.Context(), "go", "build", "-mod=mod", "-o", os.DevNull, ".")
	build.Dir = outside
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath", "GOWORK=off")
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
