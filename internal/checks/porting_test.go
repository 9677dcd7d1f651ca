package checks

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros"
)

// A person who adds a package manager finds every place that must know it. pacman is
// in all of them.
func TestThePortingGuideNamesEveryPlaceOfAPackageManager(t *testing.T) {
	_, guide, found := strings.Cut(read(t, "docs/porting.md"), "\n## A new package manager\n")
	require.True(t, found)
	guide, _, _ = strings.Cut(guide, "\n## ")
	for _, s := range sources(t) {
		if room := s.room(); s.isTest() || room == "e2e" || room == "distros" {
			continue
		}
		knows := false
		ast.Inspect(s.file, func(n ast.Node) bool {
			text, ok := n.(*ast.BasicLit)
			knows = knows || ok && strings.Contains(text.Value, "/pacman") || ok && text.Value == `"pacman"`
			return true
		})
		if knows {
			assert.Contains(t, guide, "`"+strings.Replace(s.name, "/pacman.go", "/DATABASE.go", 1)+"`")
		}
	}
}

// distroNames returns the names of distributions that code must not compare
// with: both names of the supported distributions, and other usual names.
func distroNames() []string {
	names := []string{
		"alpine", "almalinux", "al2023", "bottlerocket", "centos", "fedora", "flatcar", "opensuse-leap", "opensuse-tumbleweed",
		"photon", "rhel", "rocky", "sles", "ubuntu",
	}
	for _, d := range distros.All() {
		names = append(append(names, d.ID), d.OSRelease...)
	}
	return names
}

// decisions lists the lines of a file that depend on one of the names:
// comparisons, switches, map lookups, and calls to package strings or slices.
func decisions(s source, names []string) []string {
	var found []string
	named := func(expressions ...ast.Expr) {
		for _, e := range expressions {
			literal, ok := e.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				continue
			}
			if text, err := strconv.Unquote(literal.Value); err == nil && slices.Contains(names, text) {
				found = append(found, s.at(e.Pos())+": "+literal.Value)
			}
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				named(n.X, n.Y)
			}
		case *ast.CaseClause:
			named(n.List...)
		case *ast.IndexExpr:
			named(n.Index)
		case *ast.CompositeLit:
			if _, isMap := n.Type.(*ast.MapType); isMap {
				for _, e := range n.Elts {
					if pair, ok := e.(*ast.KeyValueExpr); ok {
						named(pair.Key)
					}
				}
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok {
				if p, ok := f.X.(*ast.Ident); ok && slices.Contains([]string{"strings", "bytes", "slices", "regexp"}, p.Name) {
					named(n.Args...)
				}
			}
		}
		return true
	})
	return found
}

// otherMeaning lists words, by file, that equal a distribution's name by
// chance.
var otherMeaning = map[string]string{
	"plugin/remote/probe.go":          "arch",   // of the processor
	"e2e/machine/aptmirror/mirror.go": "debian", // a folder of Debian's archive
}

func TestOnlyPackageDistrosNamesDistributions(t *testing.T) {
	for _, s := range sources(t) {
		// A shape is the data of a distribution, for tests.
		if s.room() == "distros" || strings.HasPrefix(s.name, "e2e/shape/") || s.isTest() {
			continue
		}
		names := distroNames()
		if other, ok := otherMeaning[s.name]; ok {
			assert.NotEmpty(t, decisions(s, []string{other}), "%s no longer needs its exception for %q", s.name, other)
			names = slices.DeleteFunc(names, func(n string) bool { return n == other })
		}
		assert.Empty(t, decisions(s, names), "add a field to the distribution in package distros and use the field")
	}
}

func TestDecisionsByDistributionNameAreFound(t *testing.T) {
	const text = `package x

func f(id string, m map[string]int) int {
	if id == "arch" || "debian" != id {
		return m["ubuntu"]
	}
	switch id {
	case "x", "amzn":
		return 1
	}
	if strings.HasPrefix(id, "rhel") {
		return map[string]int{"sles": 2, "x": 3}[id]
	}
	return g("fedora")
}
`
	want := []string{`x.go:4: "arch"`, `x.go:4: "debian"`, `x.go:5: "ubuntu"`, `x.go:8: "amzn"`, `x.go:11: "rhel"`, `x.go:12: "sles"`}
	assert.ElementsMatch(t, want, decisions(parsed(t, "x.go", text), distroNames()))
}
