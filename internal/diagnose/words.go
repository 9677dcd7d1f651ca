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
	Phrases    map[string][]string `json:"phrases"` // by class
	Unreached  []Class             `json:"unreached"`
	OfMachine  []Class             `json:"of_machine"`
	Targets    []target            `json:"targets"`
	Matrix     []cell              `json:"matrix"`
	Ended      []string            `json:"ended"`
	Followers  []string            `json:"followers"`
	Harmless   []string            `json:"harmless"`
	Waits      []string            `json:"waits"`
	ErrorParts []string            `json:"error_parts"`
	NodeUnits  []string            `json:"node_units"`
	Asides     []string            `json:"asides"`
	Strangers  []string            `json:"strangers"`
	NoLogs     struct {
		Extensions []string `json:"extensions"`
		Ends       []string `json:"ends"`
		Folders    []string `json:"folders"`
	} `json:"no_logs"`
	Months [][]string `json:"months"`
}

// target is a kind of things that fail, and how lines name one.
type target struct {
	Kind     string   `json:"kind"`
	Patterns []string `json:"patterns"`
	re       expressions
}

// cell gives failures of a kind of target their cause. An empty target is any.
type cell struct {
	Target  string  `json:"target"`
	Cause   string  `json:"cause"`
	Classes []Class `json:"classes"`
}

// words is the table of this program.
var words = sync.OnceValue(func() (t wordTable) {
	if _, err := strictjson.ReadYAML("words.yaml", wordsFile, &t); err != nil {
		panic(err) // the table is ours
	}
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
