package checks

import (
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
