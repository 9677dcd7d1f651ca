package diagnose

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
)

// wordsFile says how the lines of programs are read.
//
//go:embed words.yaml
var wordsFile []byte

// wordTable is the content of wordsFile, which describes each field.
type wordTable struct {
	Phrases    map[string][]string `yaml:"phrases"` // by class
	Unreached  []Class             `yaml:"unreached"`
	OfMachine  []Class             `yaml:"of_machine"`
	Targets    []target            `yaml:"targets"`
	Matrix     []cell              `yaml:"matrix"`
	Ended      []string            `yaml:"ended"`
	Followers  []string            `yaml:"followers"`
	Harmless   []string            `yaml:"harmless"`
	Waits      []string            `yaml:"waits"`
	ErrorParts []string            `yaml:"error_parts"`
	NodeUnits  []string            `yaml:"node_units"`
	Asides     []string            `yaml:"asides"`
	Strangers  []string            `yaml:"strangers"`
	NoLogs     struct {
		Extensions []string `yaml:"extensions"`
		Ends       []string `yaml:"ends"`
		Folders    []string `yaml:"folders"`
	} `yaml:"no_logs"`
	Months [][]string `yaml:"months"`
}

// target is a kind of things that fail, and how lines name one.
type target struct {
	Kind     string   `yaml:"kind"`
	Patterns []string `yaml:"patterns"`
	re       expressions
}

// cell gives failures of a kind of target their cause. An empty target is any.
type cell struct {
	Target  string  `yaml:"target"`
	Cause   string  `yaml:"cause"`
	Classes []Class `yaml:"classes"`
}

// words is the table of this program.
var words = sync.OnceValue(func() (t wordTable) {
	strictjson.Ours("words.yaml", wordsFile, &t)
	for i := range t.Targets {
		t.Targets[i].re = compile(t.Targets[i].Patterns...)
	}
	return t
})

var (
	ended     = sync.OnceValue(func() expressions { return compile(words().Ended...) })
	followers = sync.OnceValue(func() expressions { return compile(words().Followers...) })
	harmless  = sync.OnceValue(func() expressions { return compile(words().Harmless...) })
	waits     = sync.OnceValue(func() expressions { return compile(words().Waits...) })
	nodeUnit  = sync.OnceValue(func() *regexp.Regexp { return anyName(`^\(?`, words().NodeUnits, "") })
	asides    = sync.OnceValue(func() *regexp.Regexp { return anyName("^", words().Asides, "$") })
	strangers = sync.OnceValue(func() *regexp.Regexp { return anyName("^", words().Strangers, "$") })
)

func anyName(before string, names []string, after string) *regexp.Regexp {
	return regexp.MustCompile(before + "(" + strings.Join(names, "|") + ")" + after)
}

// causes are the places of the matrix's causes in Rules.
var causes = sync.OnceValue(func() (places []int) {
	rules := Rules()
	for _, c := range words().Matrix {
		places = append(places, slices.IndexFunc(rules, func(r Rule) bool { return r.ID == c.Cause }))
	}
	return places
})

// causeOf is the place in Rules of a failure's cause, or -1.
func (f Fact) causeOf() int {
	if slices.Contains(words().Unreached, f.Class) && slices.ContainsFunc([]string{"127.0.0.1", "localhost", "[::1]"},
		func(local string) bool { return strings.HasPrefix(f.Value, local) }) {
		return -1 // a program of this machine, which has a failure of its own
	}
	for i, c := range words().Matrix {
		if (c.Target == "" || c.Target == f.Target) && slices.Contains(c.Classes, f.Class) {
			return causes()[i]
		}
	}
	return -1
}
