package scrub

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// OwnRule is a rule that an operator adds, from a rule file or in a spec.
type OwnRule struct {
	// ID names the rule; small letters, digits and hyphens.
	ID string `yaml:"id" json:"id"`
	// Phase is when it runs: state, identity, "caches and logs" or access.
	Phase Phase `yaml:"phase" json:"phase"`
	// Groups are further names to choose it by.
	Groups []string `yaml:"groups" json:"groups,omitempty"`
	// Action is remove or empty.
	Action plan.Verb `yaml:"action" json:"action"`
	// Paths are absolute or start with "~/", and may hold wildcards.
	Paths []string `yaml:"paths" json:"paths"`
	// Keep are paths of the same form. What they name stays although Paths match
	// it or a folder above it, at any depth.
	Keep []string `yaml:"keep" json:"keep,omitempty"`
	// Owned says that the rule may take files that a package owns.
	Owned bool `yaml:"owned" json:"owned,omitempty"`
	// Owner writes there; Why says what goes wrong when the image carries it.
	Owner string `yaml:"owner" json:"owner,omitempty"`
	Why   string `yaml:"why" json:"why"`
	// Regenerated says what makes it again, Source where the fact comes from.
	Regenerated string `yaml:"regenerated" json:"regenerated,omitempty"`
	Source      string `yaml:"source" json:"source,omitempty"`
}

// ownPhases are those a rule of an operator may run in: what stops writers,
// unmounts or restores needs more than a path.
var ownPhases = []Phase{State, Identity, Caches, Access}

// ruleFile is the form of a rule file.
type ruleFile struct {
	Rules []OwnRule `yaml:"rules"`
}

// ParseRules reads a rule file: YAML with one list, "rules". Every problem is
// told with the file's name and line; unknown fields are problems.
func ParseRules(name string, text []byte) ([]OwnRule, error) {
	var f ruleFile
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil {
		return nil, ruleFileErrors(name, err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: a second document follows; put all rules under one \"rules\"", name)
	}
	if len(f.Rules) == 0 {
		return nil, fmt.Errorf("%s: it has no rules; list them under \"rules\"", name)
	}
	nodes, err := ruleNodes(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var errs []error
	seen := map[string]bool{}
	for i, r := range f.Rules {
		err := r.check()
		if seen[r.ID] {
			err = errors.Join(err, fmt.Errorf("id: %q stands twice", r.ID))
		}
		seen[r.ID] = true
		if err != nil {
			errs = append(errs, placed(name, i+1, nodes[i], err))
		}
	}
	return f.Rules, errors.Join(errs...)
}

// placed gives each line of a rule's joined error, which starts with a field,
// the place where that field stands; one that is missing has its rule's.
func placed(name string, number int, rule yaml.Node, err error) error {
	lines := strings.Split(err.Error(), "\n")
	for i, text := range lines {
		field, _, _ := strings.Cut(text, ":")
		at := rule.Line
		for k := 0; k+1 < len(rule.Content); k += 2 {
			if rule.Content[k].Value == field {
				at = rule.Content[k].Line
			}
		}
		lines[i] = fmt.Sprintf("%s:%d: rule %d: %s", name, at, number, text)
	}
	return errors.New(strings.Join(lines, "\n"))
}

// prefixed puts a prefix before each line of a joined error.
func prefixed(prefix string, err error) error {
	return errors.New(prefix + strings.ReplaceAll(err.Error(), "\n", "\n"+prefix))
}

// ruleNodes are the rules as they stand in the file.
func ruleNodes(text []byte) ([]yaml.Node, error) {
	var doc struct {
		Rules []yaml.Node `yaml:"rules"`
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	return doc.Rules, nil
}

var (
	yamlLine     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`line (\d+): (.*)`) })
	unknownField = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`field (\S+) not found in type scrub\.(\w+)`) })
	wrongType    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("cannot unmarshal !!(\\w+)(?: `(.*)`)? into (.+)") })
)

// ruleFileErrors turns the YAML library's errors into file:line: problem.
func ruleFileErrors(name string, err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: it is empty; list rules under \"rules\"", name)
	}
	var errs []error
	for _, m := range yamlLine().FindAllStringSubmatch(err.Error(), -1) {
		what := m[2]
		if u := unknownField().FindStringSubmatch(what); u != nil {
			known := "rules"
			if u[2] == "OwnRule" {
				known = "id, phase, groups, action, paths, keep, owned, owner, why, regenerated, source"
			}
			what = fmt.Sprintf("the field %q is not known; known: %s", u[1], known)
		} else if w := wrongType().FindStringSubmatch(what); w != nil {
			what = wrongTypeText(w[1], w[2], w[3])
		}
		errs = append(errs, fmt.Errorf("%s:%s: %s", name, m[1], what))
	}
	if len(errs) == 0 {
		return fmt.Errorf("%s: %w", name, err)
	}
	return errors.Join(errs...)
}

// wrongTypeText says in words of YAML what the library says in words of Go.
func wrongTypeText(kind, value, want string) string {
	forms := map[string]string{"seq": "a list", "map": "a mapping", "null": "nothing"}
	have, ok := forms[kind]
	if !ok {
		have = strconv.Quote(value)
	}
	switch {
	case strings.HasPrefix(want, "[]scrub."):
		return have + " stands where a list of rules should be"
	case strings.HasPrefix(want, "[]"):
		return have + " stands where a list should be: put it in [ ]"
	case strings.HasPrefix(want, "scrub."):
		return have + " stands where a mapping with fields should be"
	case want == "bool":
		return have + " stands where true or false should be"
	}
	return have + " stands where a text should be"
}

var ownID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`) })

// check says everything that is wrong with a rule.
func (o OwnRule) check() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !ownID().MatchString(o.ID) {
		wrong("id: %q must consist of small letters, digits and hyphens", o.ID)
	}
	for _, r := range Table() {
		if slices.Contains(r.names(), o.ID) {
			wrong("id: %q is a rule or group of eksnode; choose another", o.ID)
			break
		}
	}
	if !slices.Contains(ownPhases, o.Phase) {
		wrong("phase: %q is none of state, identity, caches and logs, access", o.Phase)
	}
	if o.Action != plan.Remove && o.Action != plan.Empty {
		wrong("action: %q is neither %q nor %q", o.Action, plan.Remove, plan.Empty)
	}
	if o.Why == "" {
		wrong("why: it is missing; say what goes wrong when an image carries this")
	}
	if len(o.Paths) == 0 {
		wrong("paths: there are none")
	}
	for _, p := range o.Paths {
		if err := checkPath(p); err != nil {
			wrong("paths: %q %w", p, err)
		}
	}
	for _, p := range o.Keep {
		if err := checkPattern(p); err != nil {
			wrong("keep: %q %w", p, err)
		}
	}
	return errors.Join(errs...)
}

// Rule is the row that an operator's rule becomes.
func (o OwnRule) Rule() Rule {
	r := Rule{
		ID: o.ID, Phase: o.Phase, Groups: append([]string{"own"}, o.Groups...), Verb: o.Action, Paths: o.Paths, Keep: o.Keep,
		Owner: o.Owner, Why: o.Why, Regenerated: o.Regenerated, Source: o.Source, own: true, owned: o.Owned,
	}
	if r.Source == "" {
		r.Source = "a rule of the operator's own"
	}
	return r
}
