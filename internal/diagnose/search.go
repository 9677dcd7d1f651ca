package diagnose

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Search searches logs one by one for the lines of every rule.
type Search struct {
	ctx      context.Context
	rules    []Rule
	patterns []pattern
	found    []Finding
	over     []bool // a log has matched Until

	errors kinds
	first  *Failure
	joined []string // lines of a node that joined
	signs  map[*expression]bool
	lines  int
	passed []string

	readJournal   Journal // nil without journalctl
	checkUserData UserData
	journals      []source // of the present folder

	stated []stated             // what files and settings show
	said   map[string][2]string // values that other files must not contradict, with their places

	templates map[string]*template
	places    []int  // of the present template's candidates
	key       []byte // of the present template

	texts  int   // number of logs
	budget int64 // how many more bytes archives may expand to
}

// expandMost bounds the expanded content of compressed files and archives, in
// bytes.
const expandMost = 1 << 30

// NewSearch makes a search. It stops when ctx ends.
func NewSearch(ctx context.Context) *Search {
	rules := Rules()
	return &Search{
		ctx: ctx, rules: rules, patterns: patterns(), found: make([]Finding, len(rules)),
		over:  make([]bool, len(rules)),
		signs: map[*expression]bool{}, budget: expandMost, said: map[string][2]string{},
		templates: map[string]*template{},
	}
}

// Report is the result of a search.
type Report struct {
	// Findings come in the table's order, consequences last.
	Findings []Finding `json:"findings"`
	// Joined are lines that only a node that joined has, with their places.
	Joined []string `json:"joined,omitempty"`
	// First is the first failure in order of time, or nil. Within a log, the order is
	// that of its lines.
	First *Failure `json:"-"`
	// Errors are the first lines that look like errors, one of each kind, with
	// their places.
	Errors []string `json:"errors,omitempty"`
	// Lines is the number of lines.
	Lines int `json:"lines"`
	// PassedOver are the files of folders and archives that are no logs.
	PassedOver []string `json:"passed_over,omitempty"`
}

// Report returns the result so far.
func (s *Search) Report() Report {
	r := Report{Joined: s.joined, First: s.first, Lines: s.lines, PassedOver: s.passed}
	for _, one := range s.errors {
		r.Errors = append(r.Errors, one.line)
	}
	if r.First != nil && len(r.Errors) == 0 {
		r.Errors = []string{r.First.Line}
	}
	for i, f := range s.found {
		if f.Count > 0 {
			f.Rule = s.rules[i].of(f.Evidence)
			f.Rule.Commands = f.commands()
			r.Findings = append(r.Findings, f)
		}
	}
	if len(r.Joined) == 0 {
		r.Findings = s.withState(r.Findings)
	}
	if len(r.Joined) > 0 || slices.ContainsFunc(r.Findings, func(f Finding) bool { return !f.general() }) {
		r.Findings = slices.DeleteFunc(r.Findings, Finding.general)
	}
	for i := range r.Findings {
		r.Findings[i].weigh(len(r.Joined) > 0)
	}
	r.Findings = order(r.Findings)
	return r
}

// Observe adds a fact about the machine to the evidence of a rule.
func (s *Search) Observe(rule, fact string) error {
	i := slices.IndexFunc(s.rules, func(r Rule) bool { return r.ID == rule })
	if i < 0 {
		return fmt.Errorf("adding %q: there is no rule %s", fact, rule)
	}
	s.found[i].add(func() string { return fact })
	s.found[i].proven = true
	return nil
}

// Log searches one text. A line that resolves a rule also resolves its findings in
// earlier logs, except in logs that have such a line of their own.
func (s *Search) Log(l Log) error {
	s.texts++
	r := reading{s: s, name: l.Name, now: s.newBoot(), ended: make([]bool, len(s.rules))}
	err := s.eachLine(l.Text, r.line)
	if r.before != nil && !r.now.says() {
		r.now = r.before
	}
	s.keepBoot(r.now)
	for i := range s.rules {
		if f := r.now.found[i]; r.ended[i] &&
			slices.Contains([]string{"joined", "reached"}, s.rules[i].Until) && f.Count > 0 && f.Count < most &&
			r.count-f.last >= recentMost {
			r.now.found[i] = Finding{} // it has passed
		}
		switch {
		case r.ended[i] && !s.over[i]:
			s.found[i], s.over[i] = r.now.found[i], true
		case r.ended[i] || !s.over[i]:
			s.found[i].join(r.now.found[i])
		}
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", l.Name, err)
	}
	return nil
}

// reading is the search of one log.
type reading struct {
	s    *Search
	name string
	// now is the present boot, and before the last earlier one that says something.
	now, before *boot
	id          string // of the present boot, from JSON
	// ended says which rules a line of this log has resolved.
	ended  []bool
	parts  broken
	timed  string // the last line with a time
	status string // the unit that systemctl status shows
	recent [recentMost]seen
	count  int // of lines
}

// line searches one line.
func (r *reading) line(number int, line string, about journalEntry) {
	if line == "" || isExplanation(line) {
		return
	}
	if startsBoot(line) || about.boot != "" && r.id != "" && about.boot != r.id {
		if r.now.says() {
			r.before = r.now
		}
		r.now = r.s.newBoot()
	}
	if about.boot != "" {
		r.id = about.boot
	}
	line = r.statusOf(line)
	place := func() string { return fmt.Sprintf("%s:%d: ", r.name, number) }
	before := r.parts.join(line)
	now := seen{r.s.template(line, about.unit), line, number, about, before != ""}
	r.judge(now)
	if hasClock(line) {
		r.timed = line
	}
	if now.sign {
		r.now.keepSign(place, line)
	}
	r.match(now, place)
	known := now.known
	if before != "" {
		known = r.matchBroken(before, now, place) || known
	}
	if !known && now.class != "" {
		r.matchFact(now, before)
	}
}

// matchFact adds a line to the findings of the cause of its fact. The target may be in what
// precedes the line, if a terminal broke the line.
func (r *reading) matchFact(l seen, before string) {
	if l.harmless || l.follows || l.ends || !l.word && l.level != "" || r.level() == "DEBUG" {
		return
	}
	rule := l.cause
	if before == "" && strings.Contains(l.line, " result: ") {
		before = r.request(l)
	}
	whole, at := l.line, l.at
	if before != "" && (rule < 0 || r.s.rules[rule].Otherwise) {
		if i := r.s.across(before, l).cause; i >= 0 && !r.s.rules[i].Otherwise {
			rule, whole, at = i, before+l.line, len(before)+l.at
		}
	}
	if rule < 0 || rule == l.done || r.s.patterns[rule].not.find(l.line) != nil || l.aside ||
		r.s.rules[rule].Otherwise && !l.bad && l.calm {
		return
	}
	f := &r.now.found[rule]
	f.proven = true
	r.heard(f, l, false)
	if f.Count == 0 {
		f.said = about(whole, l.class, at)
	}
	f.add(func() string { return r.shown(l) })
}

// request is the line before of the same program with an address, whose result a line is.
func (r *reading) request(l seen) string {
	for i := r.count - 2; i >= max(0, r.count-recentMost); i-- {
		if earlier := r.recent[i%recentMost]; earlier.by == l.by && strings.Contains(earlier.line, "://") {
			return earlier.line[max(0, len(earlier.line)-wrapsMost):] + " "
		}
	}
	return ""
}

// level is that of the last line, or of the one before that has a level: a traceback has
// that of its message.
func (r *reading) level() (level string) {
	for i := r.count - 1; i >= max(0, r.count-recentMost) && level == ""; i-- {
		level = r.recent[i%recentMost].level
	}
	return level
}

// match adds a line to the findings of the rules that it matches, and ends those that
// it resolves.
func (r *reading) match(l seen, place func() string) {
	for _, h := range l.hits {
		if h.rule < 0 {
			for i, rule := range r.s.rules {
				if rule.Until == h.until {
					r.now.found[i], r.ended[i] = Finding{}, true
				}
			}
			continue
		}
		f := &r.now.found[h.rule]
		if f.Count == 0 {
			f.said = about(l.line, l.class, l.at)
		}
		f.add(func() string { return place() + shorten(l.line, h.at) })
		consequence := l.ends || l.follows
		r.heard(f, l, consequence)
		f.proven = f.proven || !consequence
	}
}

// heard keeps where a line of a finding is, and whether it only warns or is a consequence.
func (r *reading) heard(f *Finding, l seen, consequence bool) {
	f.last = r.count
	if level := l.level; consequence || level != "" && !slices.Contains(badLevels, level) {
		f.weaker++
	}
}

// isEvidence says whether a line is evidence for a candidate's rule. A line that
// resolves a rule is none.
func (s *Search) isEvidence(c candidate, line string) bool {
	p := s.patterns[c.rule]
	return c.MatchString(line) && p.not.find(line) == nil && p.ends.find(line) == nil && harmless().find(line) == nil
}

// errorsMost is how many lines that look like errors are kept.
const errorsMost = 10

var (
	// level matches the level of a line from klog, logrus or zap, from programs that
	// write it in brackets, and from Kubernetes events.
	level = once(`(?:^|[ \]])([EFIW])\d{4} \d\d:\d\d:\d\d|\blevel"?[=:] ?"?(\w+)|\[(DEBUG|INFO|WARN|` +
		`WARNING|ERROR|CRITICAL)\]|\[(WARN)ING [A-Z]|\] (WARN)ING: |\d\d:\d\d:\d\d[.,]\d+Z?\s+` +
		`(DEBUG|INFO|WARN|ERROR)\b|\b(Warning)(?: {2,}|\t)[A-Z]|\b(FATA|ERRO|WARN|INFO|DEBU)\[\d`)
	errorWords = once(`(?i)\b(error|failed|failure|fatal|panic|denied|refus(?:ed|ing)|unauthorized|forbidden|` +
		`timed out|timeout|cannot|can't|couldn't|unable to|no such|not registered)\b|NodeNotReady`)
	// varying matches the parts that differ between lines of one kind.
	varying = once(`[0-9a-f]*[0-9][0-9a-f]*`)
	// signs matches the lines that only a node that joined has.
	signs = sync.OnceValue(func() expressions {
		return compile(slices.Concat(table().Moments["joined"], table().Moments["ready"],
			[]string{`status is now: Node(Not)?Ready`, `Successfully copied CNI plugin binary and config file`})...)
	})
)

// badLevels are the levels of errors, of cloud-init's modules that failed, and of events.
// Lines with one of warnings may say why something fails.
var (
	badLevels = []string{"E", "F", "error", "fatal", "panic", "dpanic", "ERROR", "CRITICAL", "WARNING", "Warning",
		"FATA", "ERRO"}
	warnings = []string{"W", "warning", "warn", "WARN"}
)

// klogError says whether a line, or what follows its syslog prefix, has the form of
// klog's errors. Their texts need no word for errors.
func klogError(line string) bool {
	if i := strings.Index(line, "]: "); i >= 0 {
		line = line[i+3:]
	}
	return len(line) > 5 && (line[0] == 'E' || line[0] == 'F') && isDigit(line[1]) && isDigit(line[4]) && line[5] == ' '
}
