package diagnose

import (
	"slices"
	"strings"
)

// template is what lines say that differ only in times, processes and long numbers. A program in
// trouble writes the same line again and again, and expressions read only the first one.
type template struct {
	hints
	hits  []hit
	done  int  // the last rule that the lines match, or -1
	known bool // the lines are those of a rule, or expressly of none
	cause int  // the rule of the lines' fact, or -1

	by       string // the program or the unit that wrote the lines, or empty
	level    string // or empty
	kind     string // the same for lines that differ in numbers only
	bad      bool   // looks like an error
	calm     bool   // has the level of lines that only inform, and no word of waiting for what failed
	ends     bool   // says that a service ended
	follows  bool   // follows from another failure
	harmless bool
	aside    bool // of a program that keeps no node from joining
}

// hit is a rule that lines match, or an Until.
type hit struct {
	rule  int // a place in Rules, or -1
	until string
	at    int    // where the match begins
	space string // between the parts of a broken line
}

const (
	// templatesMost is how many templates are kept.
	templatesMost = 8192
	// templateMost is how long the line of a kept template may be, in bytes.
	templateMost = 4096
)

// kept is the template with a key, made at its first use.
func (s *Search) kept(key []byte, read func() *template) *template {
	if t := s.templates[string(key)]; t != nil {
		return t
	}
	if len(s.templates) == templatesMost {
		clear(s.templates)
	}
	t := read()
	if len(key) <= templateMost {
		s.templates[string(key)] = t
	}
	return t
}

// template is that of a line, with the unit that the JSON around it names.
func (s *Search) template(line, unit string) *template {
	s.key = append(append(appendConstant(s.key[:0], line), 0), unit...)
	return s.kept(s.key, func() *template { return s.newTemplate(line, unit) })
}

func (s *Search) newTemplate(line, unit string) *template {
	t, head := &template{by: unit, done: -1, cause: -1}, line[:min(len(line), longest)]
	s.places, t.hints = candidates().read(line, s.places)
	t.word = t.word || klogError(line)
	if m := program().FindStringSubmatch(head); m != nil {
		t.by = m[1] + m[2]
	} else if unit == "" && ofKernel().MatchString(line) {
		t.by = "kernel"
	}
	m := level().FindStringSubmatch(head)
	t.level = strings.Join(m[min(1, len(m)):], "")
	t.bad = t.word && (slices.Contains(badLevels, t.level) || t.level == "" && errorWords().MatchString(head))
	t.calm = t.level != "" && !slices.Contains(warnings, t.level) && waits().find(line) == nil
	t.ends = t.end && ended().find(line) != nil
	t.follows = followers().find(line) != nil
	t.harmless = harmless().find(line) != nil
	stranger := strangers().MatchString(t.by)
	// What the kernel denies is the fault of another program, and what the machine lacks is
	// all programs' lack.
	t.aside = (stranger || asides().MatchString(t.by)) && !strings.Contains(line, "avc:") &&
		!slices.Contains(words().OfMachine, t.class)
	if t.bad {
		t.kind = varying().ReplaceAllString(head, "0")
	}
	for _, at := range s.places {
		switch c := candidates().list[at]; {
		case c.rule < 0 && c.MatchString(line):
			t.known, t.hits = true, append(t.hits, hit{rule: -1, until: c.until})
		case c.rule > t.done && s.isEvidence(c, line) && !stranger &&
			!(s.rules[c.rule].Otherwise && (t.aside || !t.bad && t.calm)):
			t.done, t.known = c.rule, t.known || !s.rules[c.rule].Otherwise
			t.hits = append(t.hits, hit{rule: c.rule, at: c.re().FindStringIndex(line)[0]})
		}
	}
	if !t.known && t.class != "" {
		t.cause = about(line, t.class, t.at).fact().causeOf()
	}
	return t
}

// fixed are the long numbers in the expressions of this package.
var fixed = []string{"10250", "50051", "2562047"}

// longNumber is how many digits a number has at least that says nothing.
const longNumber = 5

// appendConstant appends a line to a text, with 0 in the place of what varies between lines
// that say the same: clocks, processes, and long decimal and hexadecimal numbers.
func appendConstant(text []byte, line string) []byte {
	out := append(text, line...)
	text = out[len(text):]
	for i := 0; i < len(line); i++ {
		end, digits := i, 0
		for ; end < len(line) && (isDigit(line[end]) || line[end] >= 'a' && line[end] <= 'f'); end++ {
			if isDigit(line[end]) {
				digits++
			}
		}
		process := end-i > 1 && end < len(line) && i > 0 && line[i-1] == '[' && line[end] == ']' // not systemd[1]
		varies := digits > 0 && (process || end-i >= longNumber && !slices.Contains(fixed, line[i:end]))
		if digits == 2 && isClock(line[i:]) {
			for end = i + 6; end < len(line) && (isDigit(line[end]) || line[end] == '.' || line[end] == ','); end++ {
			}
			varies = true
		}
		for ; i < end; i++ {
			if varies && line[i] != ':' {
				text[i] = '0'
			}
		}
	}
	return out
}

// isClock says whether a text begins with hours and minutes, and seconds follow.
func isClock(text string) bool {
	const form = "00:00:"
	for i := range form {
		if i >= len(text) || text[i] != form[i] && !(form[i] == '0' && isDigit(text[i])) {
			return false
		}
	}
	return true
}
