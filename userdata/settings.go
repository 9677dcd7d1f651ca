package userdata

import (
	"cmp"
	_ "embed"
	"encoding/base64"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2/unstable"
	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/kubelet"
)

//go:embed settings.yaml
var settingsFile []byte

// settingsTable has the settings as a tree, each with its type and the field of
// KubeletConfiguration that it sets, and the types.
var settingsTable = sync.OnceValue(func() (table struct {
	Types    map[string]valueType
	Settings map[string]any
}) {
	strictjson.Ours("settings.yaml", settingsFile, &table)
	return table
})

// fieldOf is the field of KubeletConfiguration that a setting or a table of settings sets.
func fieldOf(at any) string {
	row, _ := at.(string)
	_, field, _ := strings.Cut(row, " ")
	table, _ := at.(map[string]any)
	for _, below := range table {
		field = cmp.Or(field, fieldOf(below))
	}
	return field
}

// valueType is a range of numbers, or a pattern with the words for messages.
type valueType struct {
	Low, High int64
	Pattern   *regexp.Regexp
	Means     string
}

// settings checks values against the tree.
type settings struct {
	*checker
	lines map[string]int
}

const separator = "\x00"

func (s settings) fail(path []string, format string, args ...any) {
	var shown []string
	for _, name := range path {
		if strings.ContainsAny(name, ". ") {
			name = `"` + name + `"`
		}
		shown = append(shown, name)
	}
	s.checker.fail(s.lineOf(path), strings.Join(shown, "."), format, args...)
}

func (s settings) lineOf(path []string) int {
	for n := len(path); n > 0; n-- {
		if line := s.lines[strings.Join(path[:n], separator)]; line > 0 {
			return line
		}
	}
	return 0
}

// walk checks a value against a table of settings, or what a setting takes.
func (s settings) walk(path []string, value, at any) {
	if row, takes := at.(string); takes {
		takes, _, _ := strings.Cut(row, " ")
		s.value(path, value, takes)
		return
	}
	table, ok := value.(map[string]any)
	if !ok {
		if value != nil {
			s.fail(path, "it must be a table, not %s", kindOf(value))
		}
		return
	}
	known := at.(map[string]any)
	for _, name := range sortedNames(table) {
		child := append(slices.Clone(path), name)
		below, there := known[name]
		for pattern, inner := range known {
			if names, star := strings.CutPrefix(pattern, "*"); star {
				below, there = inner, true
				if t := settingsTable().Types[names]; t.Pattern != nil && !t.Pattern.MatchString(name) {
					s.fail(child, "the name %q must be %s", name, t.Means)
				}
			}
		}
		if !there {
			s.fail(child, "unknown setting; %s", show.Suggest(name, sortedNames(known)))
			continue
		}
		s.walk(child, table[name], below)
	}
}

func (s settings) value(path []string, value any, takes string) {
	takes, isList := strings.CutPrefix(takes, "[]")
	takes, mayBeList := strings.CutPrefix(takes, "+")
	list, ok := value.([]any)
	t, known := settingsTable().Types[takes]
	switch {
	case takes == "any":
	case takes == "bool", known && t.Pattern == nil:
		s.plain(path, value, takes)
	case takes == "commands":
		s.commands(path, value)
	case isList && !ok:
		s.fail(path, "it must be a list of text, not %s", kindOf(value))
	case ok && (isList || mayBeList):
		for _, one := range list {
			s.text(path, one, takes)
		}
	default:
		s.text(path, value, takes)
	}
}

// commands checks lists of words that begin with apiclient, which is the only program
// of Bottlerocket's bootstrap commands.
func (s settings) commands(path []string, value any) {
	list, ok := value.([]any)
	for _, one := range list {
		words, inner := one.([]any)
		ok = ok && inner
		if inner && (len(words) == 0 || words[0] != "apiclient") {
			s.fail(path, "a command must begin with apiclient")
		}
	}
	if !ok {
		s.fail(path, "it must be a list of lists of text")
	}
}

func (s settings) plain(path []string, value any, takes string) {
	t := settingsTable().Types[takes]
	number, isNumber := value.(int64)
	_, isBool := value.(bool)
	if text, ok := value.(string); ok && takes == "percent" { // Bottlerocket takes both
		parsed, err := strconv.ParseInt(text, 10, 64)
		number, isNumber = parsed, err == nil
	}
	switch {
	case takes == "bool" && !isBool:
		s.fail(path, "it must be true or false, not %s", kindOf(value))
	case takes != "bool" && !isNumber:
		s.fail(path, "it must be a number, not %s", kindOf(value))
	case takes != "bool" && (number < t.Low || number > t.High):
		s.fail(path, "%d must be from %d to %d", number, t.Low, t.High)
	}
}

func (s settings) text(path []string, value any, takes string) {
	text, ok := value.(string)
	if _, table := value.(map[string]any); table {
		s.fail(path, "it must be text, not a table: put a name that holds dots in quotes")
		return
	}
	if !ok {
		s.fail(path, "it must be text in quotes, not %s", kindOf(value))
		return
	}
	if t := settingsTable().Types[takes]; t.Pattern != nil {
		if text == "" || !t.Pattern.MatchString(text) {
			s.fail(path, "%q must be %s", text, t.Means)
		}
		return
	}
	switch takes {
	case "eviction", "reserved":
		field := map[string]string{"eviction": "evictionHard", "reserved": "kubeReserved"}[takes]
		if said := kubelet.MemberProblem(field, path[len(path)-1], text); said != "" {
			s.fail(path, "%s", said)
		}
	case "text":
		if err := nodeconfig.CheckLine(text); err != nil && path[len(path)-1] != "motd" {
			s.fail(path, "it %v", err)
		}
	case "base64":
		if _, err := base64.StdEncoding.DecodeString(text); err != nil {
			s.fail(path, "the value is not base64: %v", err)
		}
	case "url":
		if u, err := url.Parse(text); err != nil || u.Scheme == "" || u.Host == "" {
			s.fail(path, "%q is no address such as https://example.com", text)
		}
	case "address":
		if _, err := netip.ParseAddr(text); err != nil {
			s.fail(path, "%q is no address", text)
		}
	default:
		if allowed := strings.Split(takes, "|"); !slices.Contains(allowed, text) {
			s.fail(path, "unknown value %q; %s", text, show.Suggest(text, allowed))
		}
	}
}

func kindOf(value any) string {
	switch value.(type) {
	case map[string]any:
		return "a table"
	case []any:
		return "a list"
	case string:
		return "text"
	case bool:
		return "true or false"
	case int64, float64:
		return "a number"
	default:
		return fmt.Sprintf("%T", value)
	}
}

// tomlLines says in which line each setting stands, by its path.
func tomlLines(text string) map[string]int {
	lines := map[string]int{}
	p := &unstable.Parser{}
	p.Reset([]byte(text))
	var table []string
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = keys(p, e, nil, lines)
		case unstable.KeyValue:
			keyValue(p, e, table, lines)
		}
	}
	return lines
}

func keyValue(p *unstable.Parser, e *unstable.Node, table []string, lines map[string]int) {
	path := keys(p, e, table, lines)
	if value := e.Value(); value.Kind == unstable.InlineTable {
		for all := value.Children(); all.Next(); {
			keyValue(p, all.Node(), path, lines)
		}
	}
}

// keys is the path of an expression; it keeps the line of each part.
func keys(p *unstable.Parser, e *unstable.Node, above []string, lines map[string]int) []string {
	path := slices.Clone(above)
	for all := e.Key(); all.Next(); {
		path = append(path, string(all.Node().Data))
		name := strings.Join(path, separator)
		if lines[name] == 0 {
			lines[name] = p.Shape(all.Node().Raw).Start.Line
		}
	}
	return path
}

// maxYAML bounds a YAML text, in bytes: its parser takes some hundred times as
// much memory.
const maxYAML = 256 << 10

// isReadable says whether a YAML text is within the bound.
func (c *checker) isReadable(text string) bool {
	if len(text) > maxYAML {
		c.fail(1, "", "the YAML has more than %d KiB", maxYAML>>10)
	}
	return len(text) <= maxYAML
}

// duplicates reports names that an object has twice: of those, readers take the
// last and say nothing.
func (c *checker) duplicates(n *yaml.Node, path ...string) {
	if n.Kind != yaml.MappingNode {
		for _, inner := range n.Content {
			c.duplicates(inner, path...)
		}
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if first, twice := seen[key.Value]; twice {
			c.fail(key.Line, strings.Join(append(path, key.Value), "."),
				"it stands here a second time, after line %d; only this one is read", c.line(first))
		}
		seen[key.Value] = key.Line
		c.duplicates(n.Content[i+1], append(path, nodeconfig.Printable(key.Value))...)
	}
}
