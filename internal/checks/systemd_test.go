package checks

import (
	"go/ast"
	"go/format"
	"go/token"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// newer are options that systemd 219, Amazon Linux 2's, does not have.
var newer = map[string][]string{
	"systemctl": {"--value", "--now", "--what", "--when", "--with-dependencies", "--dry-run", "--wait"},
	"udevadm":   {"--settle", "--wait-daemon", "wait", "lock", "verify"},
}

// tooNew lists the commands of a source that systemd 219 refuses.
func tooNew(s source) []string {
	var found []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		var list []ast.Expr
		switch n := n.(type) {
		case *ast.CompositeLit:
			list = n.Elts
		case *ast.CallExpr:
			list = n.Args
		}
		var words []string
		for _, e := range list {
			if lit, ok := e.(*ast.BasicLit); ok {
				if word, err := strconv.Unquote(lit.Value); err == nil {
					words = append(words, word)
				}
			}
		}
		for tool, options := range newer {
			if slices.Contains(words, tool) && slices.ContainsFunc(words, func(w string) bool { return slices.Contains(options, w) }) {
				found = append(found, s.at(n.Pos())+": "+strings.Join(words, " "))
			}
		}
		return true
	})
	return found
}

func TestCommandsWorkWithOldSystemd(t *testing.T) {
	for _, s := range sources(t) {
		if !s.isTest() && s.room() != "e2e" {
			assert.Empty(t, tooNew(s))
		}
	}
	made := parsed(t, "x/a.go", `package x
func f() { run(h, "systemctl", "enable", "--now", "a"); run(h, []string{"systemctl", "show", "--value"}); run("udevadm", "settle") }`)
	assert.Equal(t, []string{"x/a.go:2: systemctl enable --now a", "x/a.go:2: systemctl show --value"}, tooNew(made))
}

// systemd before 239 ignores a command without its path, with a warning.
var pathless = regexp.MustCompile(`(?m)^ *Exec\w+=[-@:+!]*[^-@:+!/{].*`)

// unitTables have the units that provisioning writes.
var unitTables = []string{"provisioner/files.yaml", "provisioner/options.yaml"}

func TestUnitCommandsHavePaths(t *testing.T) {
	looked := 0
	for _, name := range tracked(t) {
		if path.Ext(name) != ".service" && !slices.Contains(unitTables, name) {
			continue
		}
		looked++
		assert.Empty(t, pathless.FindAllString(testkit.Content(t, filepath.Join(root, name)), -1), name)
	}
	assert.Greater(t, looked, len(unitTables))
	assert.True(t, pathless.MatchString("ExecStartPre=-iptables -w"))
	assert.False(t, pathless.MatchString("ExecStart={command} init\nExecStartPre=-/sbin/iptables -w"))
}

var shebang = regexp.MustCompile(`^#!.*\b(sh|bash|dash)\b`)

// isScript reports whether a tracked file is a shell script.
func isScript(name, text string) bool {
	return slices.Contains([]string{".sh", ".bash"}, path.Ext(name)) || shebang.MatchString(text)
}

func TestShellScriptsPassShellcheck(t *testing.T) {
	for _, name := range tracked(t) {
		if strings.Contains(name, "/testdata/") || !isScript(name, read(t, name)) {
			continue
		}
		assert.Empty(t, shellcheck(t, filepath.Join(root, name)), name)
	}
}

// shellcheck returns the output of shellcheck(1) for a script.
func shellcheck(t *testing.T, name string) string {
	t.Helper()
	program, err := exec.LookPath("shellcheck")
	require.NoError(t, err, "install shellcheck: apt-get install shellcheck")
	out, err := exec.CommandContext(t.Context(), program, name).CombinedOutput()
	if err == nil {
		return ""
	}
	return string(out)
}

func TestShellScriptProblemsAreFound(t *testing.T) {
	const text = "#!/usr/bin/env bash\nrm -rf $1/*\n"
	assert.True(t, isScript("tool", text))
	assert.True(t, isScript("a.sh", ""))
	assert.False(t, isScript("a.go", "package a\n"))
	name := filepath.Join(t.TempDir(), "tool")
	write(t, name, text)
	assert.Contains(t, shellcheck(t, name), "SC2086")
}

const (
	linesMost = 400
	// A screen, with some room for a table.
	functionMost = 80
	// A tab counts as four columns. Tables of tests keep a case on its line.
	columnsMost = 120
)

// unbroken matches an address or a tag that leaves its line too little room.
var unbroken = regexp.MustCompile(`[^ \t]{60}`)

func TestGoFilesAreFormattedAndShort(t *testing.T) {
	for _, s := range sources(t) {
		formatted, err := format.Source([]byte(s.text))
		require.NoError(t, err, s.name)
		assert.True(t, string(formatted) == s.text, "%s: not formatted; run gofmt", s.name)
		if s.isGenerated() || path.Base(s.name) == "table.go" {
			continue
		}
		assert.LessOrEqual(t, strings.Count(s.text, "\n"), linesMost, "%s: too long; split the file by subject", s.name)
		ofProduct := !s.isTest() && !slices.Contains([]string{"e2e", "docs"}, s.room())
		for n, line := range strings.Split(s.text, "\n") {
			columns := utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
			if ofProduct && columns > columnsMost && !unbroken.MatchString(line) {
				t.Errorf("%s:%d: %d columns, of %d; wrap the line", s.name, n+1, columns, columnsMost)
			}
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || s.isTest() || isTable(f) {
				continue
			}
			lines := s.set.Position(f.End()).Line - s.set.Position(f.Pos()).Line
			assert.LessOrEqual(t, lines, functionMost, "%s: the function %s is too long", s.at(f.Pos()), f.Name.Name)
		}
	}
}

// isTable reports whether a function only returns a literal. Its length is then
// its number of rows.
func isTable(f *ast.FuncDecl) bool {
	if f.Body == nil || len(f.Body.List) == 0 || len(f.Body.List) > 3 {
		return false
	}
	last, ok := f.Body.List[len(f.Body.List)-1].(*ast.ReturnStmt)
	if !ok || len(last.Results) != 1 {
		return false
	}
	_, ok = last.Results[0].(*ast.CompositeLit)
	return ok
}

// A skipped test proves nothing. A test that sleeps is slow or fails at random.
func TestTestsNeitherSkipNorSleep(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() {
			assert.Empty(t, evasions(s))
		}
	}
}

func evasions(s source) []string {
	var found []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		on, _ := f.X.(*ast.Ident)
		skips := slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, f.Sel.Name) && on != nil && len(on.Name) <= 2
		sleeps := on != nil && on.Name == "time" && f.Sel.Name == "Sleep"
		if skips || sleeps {
			found = append(found, s.at(n.Pos())+": "+on.Name+"."+f.Sel.Name)
		}
		return true
	})
	return found
}

func TestSkipsAndSleepsAreFound(t *testing.T) {
	s := parsed(t, "x_test.go", "package x\n\nfunc TestX(t *testing.T) {\n\tt.Skip(\"no root\")\n\ttime.Sleep(time.Second)\n\tlist.Skip(1)\n}\n")
	assert.Equal(t, []string{"x_test.go:4: t.Skip", "x_test.go:5: time.Sleep"}, evasions(s))
}

// unfinished matches the usual marks of unfinished code. They are split here,
// so that this file does not contain them.
var unfinished = regexp.MustCompile(`\b(` + "TO" + "DO|FIX" + "ME|X" + `XX)\b|` + "not " + "implemented|un" + "implemented")

// thisMachine matches paths that exist at one workplace only.
var thisMachine = regexp.MustCompile(`(^|[^A-Za-z0-9_.-])/(wor` + "k|far" + `m)/|\.lib` + `rary/`)

func TestNoUnfinishedMarksOrLocalPaths(t *testing.T) {
	for _, name := range tracked(t) {
		text := read(t, name)
		if strings.ContainsRune(text, 0) || path.Base(name) == "go.sum" {
			continue
		}
		for i, line := range strings.Split(text, "\n") {
			assert.NotRegexp(t, thisMachine, line, "%s:%d", name, i+1)
			if path.Base(name) != "threads.txtar" { // other programs say so in their logs
				assert.NotRegexp(t, unfinished, line, "%s:%d", name, i+1)
			}
		}
	}
}

// Every exported identifier has a doc comment.
func TestExportedNamesHaveComments(t *testing.T) {
	for _, s := range sources(t) {
		// The comment is at the variant for the supported system.
		if s.isTest() || s.isGenerated() || strings.HasSuffix(s.name, "_other.go") {
			continue
		}
		assert.Empty(t, undescribed(s))
	}
}

func undescribed(s source) []string {
	var found []string
	missing := func(name *ast.Ident, docs ...*ast.CommentGroup) {
		described := slices.ContainsFunc(docs, func(d *ast.CommentGroup) bool { return d != nil })
		if name.IsExported() && !described {
			found = append(found, s.at(name.Pos())+": "+name.Name)
		}
	}
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || exportedReceiver(d.Recv) && !standard[d.Name.Name] {
				missing(d.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					missing(spec.Name, d.Doc, spec.Doc)
				case *ast.ValueSpec:
					missing(spec.Names[0], d.Doc, spec.Doc, spec.Comment)
				}
			}
		}
	}
	return found
}

// standard are methods with the meaning of their interface.
var standard = map[string]bool{
	"String": true, "Error": true, "Unwrap": true, "Close": true, "Read": true, "Write": true,
	"ID": true, "Phase": true, "Len": true, "Less": true, "Swap": true, "Name": true,
}

func exportedReceiver(list *ast.FieldList) bool {
	e := list.List[0].Type
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if index, ok := e.(*ast.IndexExpr); ok {
		e = index.X
	}
	name, ok := e.(*ast.Ident)
	return ok && token.IsExported(name.Name)
}
