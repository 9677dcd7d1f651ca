package secrets

import (
	_ "embed"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

//go:embed patterns.yaml
var patternsFile []byte

// file is the form of patterns.yaml.
type file struct {
	Lists    map[string][]string `yaml:"lists"`
	Parts    map[string]string   `yaml:"parts"`
	Patterns []row               `yaml:"patterns"`
}

// row is a pattern in a file. Its expressions have references to parts, and its hints may be
// lists.
type row struct {
	Pattern
	Re     string `yaml:"re"`
	Then   string `yaml:"then"`
	Sample string `yaml:"sample"`
	// A file is searched if its base name is Named, its folder is one Below, its path is one
	// of Paths, or the function In selects it. Without these, every file is.
	Named []string `yaml:"named"`
	Below []string `yaml:"below"`
	Paths []string `yaml:"paths"`
	In    string   `yaml:"in"`
}

// selectors are the functions that rows name.
var selectors = map[string]func(name string) bool{
	"settings": settings, "no-samples": noSamples, "network": networkFiles, "unusual-kubeconfigs": unusual,
}

// table is the table of this program.
var table = sync.OnceValue(func() []Pattern {
	patterns, err := readTable("patterns.yaml", patternsFile)
	if err != nil {
		panic(err) // the table is ours
	}
	return patterns
})

// All returns the patterns of every kind of secret.
func All() []Pattern { return slices.Clone(table()) }

// readTable reads a table. The error lists all mistakes.
func readTable(name string, text []byte) (patterns []Pattern, err error) {
	var f file
	if _, err := strictjson.ReadYAML(name, text, &f); err != nil {
		return nil, err
	}
	f.Parts["service"] = serviceNames(f.Lists["services"])
	var errs []error
	wrong := func(r row, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s: %s", name, r.Kind, fmt.Sprintf(format, args...)))
	}
	for _, r := range f.Patterns {
		expression := func(text string) func() *regexp.Regexp {
			if text == "" {
				return nil
			}
			text = reference.ReplaceAllStringFunc(text, func(part string) string {
				if f.Parts[unbraced(part)] == "" {
					wrong(r, "there is no part %s", part)
				}
				return f.Parts[unbraced(part)]
			})
			return rule.Expression(strings.ReplaceAll(text, "\n", ""))
		}
		p := r.Pattern
		p.Re, p.then, p.sample, p.Hints = expression(r.Re), expression(r.Then), expression(r.Sample), nil
		for _, hint := range r.Hints {
			words := []string{hint}
			if reference.MatchString(hint) {
				words = f.Lists[unbraced(hint)]
			}
			if words == nil {
				wrong(r, "there is no list %s", hint)
			}
			p.Hints = append(p.Hints, words...)
		}
		if r.In != "" && selectors[r.In] == nil {
			wrong(r, "there is no function %s", r.In)
		}
		if r.In != "" || r.Named != nil || r.Below != nil || r.Paths != nil {
			p.in = r.selects
		}
		if p.in == nil && p.Hints == nil {
			wrong(r, "a pattern needs hints, or files that it selects")
		}
		patterns = append(patterns, p)
	}
	return patterns, errors.Join(errs...)
}

// reference is a name in braces. No quantifier begins with a letter.
var reference = regexp.MustCompile(`\{[a-z][a-z-]*\}`)

func unbraced(name string) string { return strings.Trim(name, "{}") }

// selects reports whether the row's pattern applies to a file.
func (r row) selects(name string) bool {
	return rule.Kept(r.Named, path.Base(name)) || below(r.Below...)(name) || rule.Kept(r.Paths, name) ||
		r.In != "" && selectors[r.In](name)
}

// serviceNames matches the name of a service as a word, and inside a word.
func serviceNames(services []string) string {
	wordStart := regexp.MustCompile(`(^|[_-])[a-z]`)
	var inside []string
	for _, name := range services {
		camel := wordStart.ReplaceAllStringFunc(name, func(start string) string {
			return strings.ToUpper(start[len(start)-1:])
		})
		inside = append(inside, camel, strings.ToUpper(camel))
	}
	return `((^|[^A-Za-z])(` + strings.Join(services, "|") + `)|(?-i:[a-z](` + strings.Join(inside, "|") + `)))`
}
