// Package diagnose finds the cause when a node did not join. It searches the logs
// of the kubelet, containerd and first boot for known causes, and shows the lines
// that prove each cause and the remedy.
package diagnose

import (
	"cmp"
	"io"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// Rule is one known cause.
type Rule struct {
	// ID names the rule in output, tests and documentation.
	ID string `json:"id"`
	// Cause is the fault and Remedy the way out, each in a sentence.
	Cause  string `json:"cause"`
	Remedy string `json:"remedy"`
	// Lines are the patterns of log lines. One match is enough. The matrix has the
	// causes of other lines.
	Lines []string `json:"-" file:"lines"`
	// Not are the patterns of lines that are no evidence.
	Not []string `json:"-" file:"not"`
	// Until is the moment whose line resolves the cause: matches before it, and in other
	// logs, belong to the start. Empty means never.
	Until string `json:"-" file:"until"`
	// Explains are rules whose findings are consequences of this one.
	Explains []string `json:"-" file:"explains"`
	// Otherwise marks a rule that only says where to look further. It is reported
	// only without other findings, and not for a node that joined.
	Otherwise bool `json:"-" file:"otherwise"`

	// Owners are programs whose lines mean the same, with a remedy of their own.
	Owners []Owner `json:"-" file:"owners"`

	// Files show the cause without a line of a log.
	Files []stateFile `json:"-" file:"files"`

	// Others are the causes that may write the same lines. Empty means that the lines
	// themselves say what is wrong.
	Others string `json:"-" file:"others"`
	// Commands find out more or carry out the remedy, in this order. Commands with sudo
	// run on the node. Words in capital letters are to be replaced.
	Commands []string `json:"commands"`
	// Settings are the rules of the audit that find settings of a machine with this
	// effect.
	Settings []string `json:"-"`
}

// Owner is a program that fails in the way of a rule.
type Owner struct {
	// Line is a pattern that only the program's lines match.
	Line string `json:"line"`
	// Cause, Remedy and Commands take the place of the rule's.
	Cause    string   `json:"cause"`
	Remedy   string   `json:"remedy"`
	Commands []string `json:"commands"`
}

// of is the rule in the words for the program whose lines are the evidence.
func (r Rule) of(evidence []string) Rule {
	for _, o := range r.Owners {
		if slices.ContainsFunc(evidence, func(line string) bool { return compile(o.Line).find(line) != nil }) {
			r.Cause, r.Remedy, r.Commands = o.Cause, o.Remedy, o.Commands
			break
		}
	}
	return r
}

// Finding is a rule with matching lines.
type Finding struct {
	Rule
	// Evidence are the first matching lines and their places.
	Evidence []string `json:"evidence"`
	// Count is the number of matching lines.
	Count int `json:"count"`
	// proven says that a line is more than the end of a service or a consequence.
	proven bool
	// weaker is the number of matching lines that only warn or are consequences.
	weaker int
	// state says that files and settings of the machine show the cause, and no line.
	state bool
	// last is how many lines were before the last one in its log.
	last int
	// said is the first line.
	said said
	// Follows names the finding that caused this one.
	Follows string `json:"follows,omitempty"`
	// Certainty says how sure the cause is, and Why says why.
	Certainty Certainty `json:"sure"`
	Why       string    `json:"why"`
	// Address is that of the page about the cause.
	Address string `json:"page"`
}

// most is how many lines of evidence each finding keeps. The first ones show how
// the problem began.
const most = 3

// longest is how much of a line is shown, in bytes. The kubelet's events have
// thousands.
const longest = 320

// Log is a named text: a unit's journal or a file.
type Log struct {
	Name string
	Text io.Reader
}

// plainValue matches values that may stand in a command: logs can contain anything.
var plainValue = once(`^[A-Za-z0-9/][A-Za-z0-9._:/\[\]-]*$`)

// placeholders are the words in commands that the value of a kind of target replaces.
var placeholders = map[string]struct{ word, before string }{"API server": {"ENDPOINT", "https://"}, "file": {"FILE",
	""}}

// commands are those of a rule about the very thing that failed.
func (f Finding) commands() (list []string) {
	fact := f.said.fact()
	word := placeholders[fact.Target]
	settings := f.settings()
	for _, command := range f.Rule.Commands {
		if settings != "" {
			command = strings.ReplaceAll(command, "SETTING", settings)
		}
		userData := strings.HasPrefix(command, "eksnode userdata check") // its file is another
		if word.word != "" && !userData && plainValue().MatchString(fact.Value) {
			command = strings.ReplaceAll(command, word.word, word.before+fact.Value)
		}
		list = append(list, command)
	}
	return list
}

// demanded matches the kernel settings that a program names, with their values.
var demanded = once(`nvalid kernel [a-z: ]+ ([a-z0-9_/.]+)(?:,|=\d+ -) expected (?:value: )?(\d+)|` +
	`/proc/sys/([a-z0-9_/.]+) contents are not set to (\d+)`)

// settings are the kernel settings that the evidence demands, as sysctl takes them.
func (f Finding) settings() string {
	var list []string
	for _, m := range demanded().FindAllStringSubmatch(strings.Join(f.Evidence, "\n"), -1) {
		one := strings.ReplaceAll(m[1]+m[3], "/", ".") + "=" + m[2] + m[4]
		if !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	return strings.Join(list, " ")
}

// general says that a finding only shows where to look further.
func (f Finding) general() bool { return f.Rule.Otherwise || !f.proven }

// add counts a line, and makes the text of the first ones only.
func (f *Finding) add(line func() string) {
	f.Count++
	if len(f.Evidence) < most {
		f.Evidence = append(f.Evidence, line())
	}
}

// join adds the matches of another log.
func (f *Finding) join(more Finding) {
	if f.Count == 0 {
		f.said = more.said
	}
	f.Count += more.Count
	f.proven, f.weaker = f.proven || more.proven, f.weaker+more.weaker
	f.Evidence = append(f.Evidence, more.Evidence[:min(len(more.Evidence), most-len(f.Evidence))]...)
}

// shorten keeps the printable part of a line around a place.
func shorten(line string, at int) string {
	if len(line) <= longest {
		return show.Printable(strings.TrimSpace(line))
	}
	for _, field := range []string{` err=`, ` error=`, `"error":`} {
		if at == 0 {
			at = max(0, strings.LastIndex(line, field))
		}
	}
	// The innermost error is at the end.
	from := max(0, min(at-longest/4, len(line)-longest))
	if len(line)-at <= longest {
		from = len(line) - longest
	}
	text := strings.TrimSpace(strings.ToValidUTF8(line[from:from+longest], ""))
	if from > 0 {
		text = "…" + text
	}
	if from+longest < len(line) {
		text += "…"
	}
	return show.Printable(text)
}

// order marks consequences and puts them last. Of the others, sure causes come first, and
// those of equal sureness that only warn, and consequences, come after errors.
func order(list []Finding) []Finding {
	for i, one := range list {
		explains := func(f Finding) bool { return slices.Contains(f.Rule.Explains, one.Rule.ID) }
		if j := slices.IndexFunc(list, explains); j >= 0 {
			list[i].Follows = list[j].Rule.ID
		}
	}
	slices.SortStableFunc(list, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(min(len(a.Follows), 1), min(len(b.Follows), 1)), cmp.Compare(slices.Index(levels,
			a.Certainty), slices.Index(levels, b.Certainty)), cmp.Compare(a.weaker/a.Count, b.weaker/b.Count))
	})
	return list
}
