package checks

import (
	"go/ast"
	"path"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A rule's row and its function are in one file. A function for rows of several
// files is in a file of its own.
func TestRulesAndFunctionsShareAFile(t *testing.T) {
	var files []source
	for _, s := range sources(t) {
		if path.Dir(s.name) == "scrub" && !s.isTest() {
			files = append(files, s)
		}
	}
	assert.Empty(t, apart(files))
}

func TestRulesApartFromFunctionsAreFound(t *testing.T) {
	row := "package scrub\n\nvar rows = []Rule{{ID: \"a\", Find: find}, {ID: \"b\", Find: both(1)}, {ID: \"c\", Search: search}}\n\nfunc search() {}\n"
	assert.Equal(t, []string{"a.go: find is in b.go"}, apart([]source{
		parsed(t, "a.go", row), parsed(t, "b.go", "package scrub\n\nfunc find() {}\n\nfunc both(int) {}\n"),
		parsed(t, "c.go", "package scrub\n\nvar rule = Rule{Find: both(2)}\n"),
	}))
}

// apart lists the functions of rules that are in another file than the row.
func apart(files []source) []string {
	declared, used := map[string]string{}, map[string][]string{}
	for _, s := range files {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				declared[f.Name.Name] = s.name
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			field, ok := n.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			key, ok := field.Key.(*ast.Ident)
			if !ok || !slices.Contains([]string{"Applies", "Find", "Search"}, key.Name) {
				return true
			}
			value := field.Value
			if call, ok := value.(*ast.CallExpr); ok {
				value = call.Fun
			}
			if f, ok := value.(*ast.Ident); ok && !slices.Contains(used[f.Name], s.name) {
				used[f.Name] = append(used[f.Name], s.name)
			}
			return true
		})
	}
	var found []string
	for name, in := range used {
		if at, own := declared[name]; own && len(in) == 1 && at != in[0] {
			found = append(found, in[0]+": "+name+" is in "+at)
		}
	}
	slices.Sort(found)
	return found
}
