package diagnose

import (
	"slices"
	"strings"
)

// boot is what a log says about one boot. Logs of several boots are about the last
// one, unless that one says nothing: the machine restarted for another reason.
type boot struct {
	found  []Finding // by rule
	joined []sign
	first  *Failure
	errors []string // that look like errors, the first ones
	kinds  map[string]bool
}

// sign is a line that only a node that joined has.
type sign struct {
	kind *expression
	line string
}

func (s *Search) newBoot() *boot {
	return &boot{found: make([]Finding, len(s.rules)), kinds: map[string]bool{}}
}

// says reports whether a boot shows anything that matters.
func (b *boot) says() bool {
	return len(b.joined) > 0 || slices.ContainsFunc(b.found, func(f Finding) bool { return f.Count > 0 })
}

// kernelStart matches the first line of the kernel.
var kernelStart = once(`(?:^|\] |kernel: )Linux version \d+\.\d+\S* \(`)

// startsBoot says whether a line is the first one of another boot: journalctl writes
// a separator, and the kernel begins with its version.
func startsBoot(line string) bool {
	switch {
	case strings.HasPrefix(line, "-- Reboot --"), strings.HasPrefix(line, "-- Boot ") && strings.HasSuffix(line, " --"):
		return true
	default:
		return strings.Contains(line, "Linux version ") && kernelStart().MatchString(line[:min(len(line), longest)])
	}
}

// isExplanation says whether journalctl --catalog explains with a line the one before.
func isExplanation(line string) bool {
	n := len(line)
	return strings.HasPrefix(line, "░░") ||
		strings.HasPrefix(line, "-- ") && n > 4 && line[n-2] != ' ' && line[n-1] != '-'
}

// keepError keeps a line that looks like an error, unless a similar line is kept
// already.
func (b *boot) keepError(place func() string, l seen) {
	if len(b.errors) == errorsMost {
		return
	}
	kind := l.kind
	if !b.kinds[kind] {
		b.kinds[kind] = true
		b.errors = append(b.errors, place()+shorten(l.line, 0))
	}
}

// keepSign keeps the first line of each kind that shows that the node joined.
func (b *boot) keepSign(place func() string, line string) {
	e := signs().find(line)
	if strings.Contains(line, "NodeNotReady") { // it was ready before
		b.joined = slices.DeleteFunc(b.joined, func(s sign) bool { return s.kind == e })
	} else if e != nil && !slices.ContainsFunc(b.joined, func(s sign) bool { return s.kind == e }) {
		b.joined = append(b.joined, sign{e, place() + shorten(line, e.FindStringIndex(line)[0])})
		b.first = nil // the node joined in spite of it
	}
}

// keepBoot adds what a log says, except its findings.
func (s *Search) keepBoot(b *boot) {
	for _, one := range b.joined {
		if !s.signs[one.kind] {
			s.signs[one.kind] = true
			s.joined = append(s.joined, one.line)
		}
	}
	if b.first != nil && b.first.before(s.first) {
		s.first = b.first
	}
	for _, line := range b.errors {
		_, text, _ := strings.Cut(line, ": ")
		kind := varying().ReplaceAllString(text, "0")
		if len(s.errors) < errorsMost && !s.kinds[kind] {
			s.kinds[kind] = true
			s.errors = append(s.errors, line)
		}
	}
}
