package diagnose

import (
	"slices"
	"strings"
)

// template is what lines say that differ only in times, processes and long numbers. A
// program in trouble writes the same line again and again, and expressions read only the
// first one.
type template struct {
	line string // the first such line
	unit string // of the JSON around the lines, or empty
	hints
	hits  []hit
	done  int  // the last rule that the lines match, or -1
	known bool // the lines are those of a rule, or expressly of none

	level, writer, kind           lazy[string]
	bad, informs, apart           lazy[bool]
	isEnd, isFollower, isHarmless lazy[bool]
	noFact                        lazy[bool]
	cause                         lazy[int]
}

// hit is a rule that lines match, or an Until.
type hit struct {
	rule  int // a place in Rules, or -1
	until string
	at    int    // where the match begins
	space string // between the parts of a broken line
}

// lazy is a value that is made at its first use.
type lazy[T any] struct {
	made  bool
	value T
}

func (l *lazy[T]) get(value func() T) T {
	if !l.made {
		l.value, l.made = value(), true
	}
	return l.value
}

// by is the program or the unit that wrote the lines, or empty.
func (t *template) by() string {
	return t.writer.get(func() string {
		if m := program().FindStringSubmatch(t.line[:min(len(t.line), longest)]); m != nil {
			return m[1] + m[2]
		}
		if t.unit == "" && strings.HasPrefix(t.line, "[") && ofKernel().MatchString(t.line) {
			return "kernel"
		}
		return t.unit
	})
}

// levelOf is the lines' level, or empty.
func (t *template) levelOf() string {
	return t.level.get(func() string {
		m := level().FindStringSubmatch(t.line[:min(len(t.line), longest)])
		return strings.Join(m[min(1, len(m)):], "")
	})
}

// looksBad says whether the lines look like errors.
func (t *template) looksBad() bool {
	return t.word && t.bad.get(func() bool {
		if level := t.levelOf(); level != "" {
			return slices.Contains(badLevels, level)
		}
		return errorWords().MatchString(t.line[:min(len(t.line), longest)])
	})
}

// calm says whether the lines have the level of those that only inform, and no word of
// waiting for something that failed.
func (t *template) calm() bool {
	return t.informs.get(func() bool {
		level := t.levelOf()
		return level != "" && !slices.Contains(warnings, level) && waits().find(t.line) == nil
	})
}

// kindOf is the same for lines that differ in numbers only.
func (t *template) kindOf() string {
	return t.kind.get(func() string { return varying().ReplaceAllString(t.line[:min(len(t.line), longest)], "0") })
}

func (t *template) ends() bool {
	return t.end && t.isEnd.get(func() bool { return ended().find(t.line) != nil })
}

func (t *template) follows() bool {
	return t.isFollower.get(func() bool { return followers().find(t.line) != nil })
}

func (t *template) harmless() bool {
	return t.isHarmless.get(func() bool { return harmless().find(t.line) != nil })
}

// aside says whether the lines are those of a program that keeps no node from joining. What
// the kernel denies is the fault of another program, and what the machine lacks is all
// programs' lack.
func (t *template) aside() bool {
	return t.apart.get(func() bool {
		by := t.by()
		return (asides().MatchString(by) || strangers().MatchString(by)) && !strings.Contains(t.line, "avc:") &&
			!slices.Contains(ofMachine, t.class)
	})
}

// excused says whether the lines are no evidence, whatever their fact is.
func (t *template) excused() bool {
	return t.noFact.get(func() bool {
		return t.harmless() || t.follows() || t.ends() || !t.word && level().MatchString(t.line)
	})
}

// causeOf is the rule of the lines' fact, or -1.
func (t *template) causeOf() int {
	return t.cause.get(func() int { return about(t.line, t.class, t.at).fact().causeOf() })
}

// template is that of a line, with the unit that the JSON around it names.
func (s *Search) template(line, unit string) *template {
	s.key = append(append(appendConstant(s.key[:0], line), 0), unit...)
	t := s.templates[string(s.key)]
	if t != nil {
		return t
	}
	t = s.keep(&template{line: line, unit: unit, done: -1})
	s.places, t.hints = candidates().read(line, s.places)
	t.word = t.word || klogError(line)
	for _, at := range s.places {
		switch c := candidates().list[at]; {
		case c.rule < 0 && c.MatchString(line):
			t.known, t.hits = true, append(t.hits, hit{rule: -1, until: c.until})
		case c.rule > t.done && s.isEvidence(c, line) && !strangers().MatchString(t.by()) &&
			!(s.rules[c.rule].Otherwise && (t.aside() || !t.looksBad() && t.calm())):
			t.done, t.known = c.rule, t.known || !s.rules[c.rule].Otherwise
			t.hits = append(t.hits, hit{rule: c.rule, at: c.FindStringIndex(line)[0]})
		}
	}
	return t
}

const (
	// templatesMost is how many templates are kept.
	templatesMost = 8192
	// templateMost is how long a kept template may be, in bytes.
	templateMost = 4096
)

// keep keeps a new template under the present key, for the lines to come.
func (s *Search) keep(t *template) *template {
	if len(s.templates) == templatesMost {
		clear(s.templates)
	}
	if len(s.key) <= templateMost {
		s.templates[string(s.key)] = t
	}
	return t
}

// appendConstant appends a line to a text, with 0 in the place of the digits that vary
// between lines that say the same.
func appendConstant(text []byte, line string) []byte {
	from := len(text)
	text = append(text, line...)
	for i := 0; i < len(line); i++ {
		if !isDigit(line[i]) {
			continue
		}
		begin, end, varies := numberAt(line, i)
		for j := begin; varies && j < end; j++ {
			if isHex(line[j]) {
				text[from+j] = '0'
			}
		}
		i = end - 1
	}
	return text
}

const (
	// longNumber is how many digits a number has at least that says nothing.
	longNumber = 5
	// numberMost is how much of a line is looked at for one number, in bytes.
	numberMost = 128
)

// fixed are the long numbers in the expressions of this package.
var fixed = []string{"10250", "50051", "2562047"}

// numberAt is where the number begins and ends whose first digit is at a place, and whether
// it varies: a clock with klog's process, a process or a kernel's seconds in brackets, and a
// long number, decimal or hexadecimal. A dot or a hyphen may join more to them.
func numberAt(line string, i int) (begin, end int, varies bool) {
	rest := line[i:min(len(line), i+numberMost)]
	if isClock(rest) {
		end = len("00:00:00")
		if end < len(rest) && (rest[end] == '.' || rest[end] == ',') {
			end += 1 + span(rest[end+1:], isDigit)
		}
		if i > 5 && strings.IndexByte("EFIW", line[i-6]) >= 0 {
			end += span(rest[end:], func(c byte) bool { return c == ' ' || isDigit(c) })
		}
		return i, i + end, true
	}
	begin, end = i, i+span(rest, isDigit)
	inBrackets := strings.HasSuffix(strings.TrimRight(line[max(0, i-8):i], " "), "[")
	varies = inBrackets && (end-i > 1 || line[i-1] == ' ') || // not systemd[1]
		end-i >= longNumber && !slices.Contains(fixed, line[i:end])
	first, last := i, i+span(rest, isHex)
	for first > max(0, i-numberMost) && isHex(line[first-1]) {
		first--
	}
	if last > end && last-first >= longNumber && (first == 0 || !isWord(line[first-1])) && endsWord(line, last) {
		begin, end, varies = first, last, true
	}
	for varies && end < len(line) && (line[end] == '.' || line[end] == '-') {
		next := end + 1 + span(line[end+1:min(len(line), end+numberMost)], isHex)
		if next == end+1 || !endsWord(line, next) {
			break
		}
		end = next
	}
	return begin, end, varies
}

func endsWord(line string, at int) bool { return at == len(line) || !isWord(line[at]) }

func isClock(text string) bool {
	const form = "00:00:00"
	for i := range form {
		if i >= len(text) || text[i] != form[i] && !(form[i] == '0' && isDigit(text[i])) {
			return false
		}
	}
	return true
}

func isHex(c byte) bool  { return isDigit(c) || c >= 'a' && c <= 'f' }
func isWord(c byte) bool { return isHex(c) || c >= 'g' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' }

// span is how many bytes at the start of a text are of a kind.
func span(text string, is func(byte) bool) int {
	for i := range len(text) {
		if !is(text[i]) {
			return i
		}
	}
	return len(text)
}
