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
	errors kinds // lines that look like errors, the first ones
}

// kinds are lines, one of each kind.
type kinds []ofKind

type ofKind struct{ kind, line string }

// add makes and adds a line, unless there are errorsMost or one of its kind.
func (k *kinds) add(kind string, line func() string) {
	if len(*k) < errorsMost && !slices.ContainsFunc(*k, func(one ofKind) bool { return one.kind == kind }) {
		*k = append(*k, ofKind{kind, line()})
	}
}

// sign is a line that only a node that joined has.
type sign struct {
	kind *expression
	line string
}

func (s *Search) newBoot() *boot {
	return &boot{found: make([]Finding, len(s.rules))}
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

// keepSign keeps the first line of each kind that shows that the node joined.
func (b *boot) keepSign(place func() string, line string) {
	e := signs().find(line)
	if strings.Contains(line, "NodeNotReady") { // it was ready before
		b.joined = slices.DeleteFunc(b.joined, func(s sign) bool { return s.kind == e })
	} else if e != nil && !slices.ContainsFunc(b.joined, func(s sign) bool { return s.kind == e }) {
		b.joined = append(b.joined, sign{e, place() + shorten(line, e.re().FindStringIndex(line)[0])})
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
	for _, one := range b.errors {
		s.errors.add(one.kind, func() string { return one.line })
	}
}
