package diagnose

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"regexp/syntax"
	"slices"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// causesFile lists the known causes.
//
//go:embed causes.yaml
var causesFile []byte

// causeTable is the content of causesFile.
type causeTable struct {
	// Moments are patterns of what a node logs at a moment of its start.
	Moments map[string][]string `json:"moments"`
	// Commands are those of several causes, which repeat them as YAML's aliases.
	Commands []string `json:"commands"`
	// Files are the names of those that several causes read, which repeat them likewise.
	Files  map[string][]string `json:"files"`
	Causes []Rule              `json:"causes"`
}

// table is the table of this program.
var table = sync.OnceValue(func() causeTable {
	t, err := readTable("causes.yaml", causesFile)
	if err != nil {
		panic(err) // the table is ours
	}
	return t
})

// readTable reads a table. The error lists all mistakes with file and line.
func readTable(file string, text []byte) (t causeTable, err error) {
	lines, err := strictjson.ReadYAML(file, text, &t)
	errs := []error{err}
	wrong := func(path, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s:%d: %s: %s", file, lines[path], path, fmt.Sprintf(format, args...)))
	}
	check := func(path, pattern string) {
		if _, err := syntax.Parse(pattern, syntax.Perl); err != nil {
			wrong(path, "%v", err)
		}
	}
	checkAll := func(path string, patterns []string) {
		for i, pattern := range patterns {
			check(fmt.Sprintf("%s[%d]", path, i), pattern)
		}
	}
	moments := slices.Sorted(maps.Keys(t.Moments))
	for _, name := range moments {
		checkAll("moments."+name, t.Moments[name])
	}
	for i, r := range t.Causes {
		path := fmt.Sprintf("causes[%d]", i)
		checkAll(path+".lines", r.Lines)
		checkAll(path+".not", r.Not)
		for j, owner := range r.Owners {
			check(fmt.Sprintf("%s.owners[%d].line", path, j), owner.Line)
		}
		for j, f := range r.Files {
			check(fmt.Sprintf("%s.files[%d]", path, j), f.pattern())
		}
		if r.Until != "" && t.Moments[r.Until] == nil {
			wrong(path+".until", "unknown moment %q; %s", r.Until, show.Suggest(r.Until, moments))
		}
	}
	return t, errors.Join(errs...)
}

// Rules is the table of known causes, root causes before their consequences. The
// settings of a machine that may be the cause are rows of the audit, which has a
// command for them.
var Rules = sync.OnceValue(func() []Rule {
	rules := slices.Clone(table().Causes)
	for _, breaker := range scrub.Table() {
		if breaker.Breaks == nil {
			continue
		}
		i := slices.IndexFunc(rules, func(r Rule) bool { return r.ID == breaker.Breaks.Cause })
		if i < 0 {
			continue // a test fails on it
		}
		command := "sudo eksnode audit --rules " + rules[i].ID
		if !slices.Contains(rules[i].Commands, command) {
			rules[i].Commands = append(slices.Clip(rules[i].Commands), command)
		}
		rules[i].Settings = append(rules[i].Settings, breaker.ID)
	}
	return rules
})
