package diagnose

import (
	"net"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// Class says how something failed, whatever the program calls it.
type Class string

// The classes that this package names. words.yaml has all.
const (
	Refused Class = "refused"
	Late    Class = "too late"
	Waits   Class = "waits" // if the line has no other class
)

// Fact is what a line says about a failure: what failed and how.
type Fact struct {
	// Target is the kind of what failed, such as "API server", and Value which one.
	Target string `json:"target,omitempty"`
	Value  string `json:"value,omitempty"`
	Class  Class  `json:"class,omitempty"`
}

// String is the fact in words.
func (f Fact) String() string {
	return strings.Join(slices.DeleteFunc([]string{f.Target, f.Value, string(f.Class)},
		func(text string) bool { return text == "" }), " ")
}

// factMost is how much of a line around its innermost error is read for a fact, in
// bytes.
const factMost = 700

// said is what is read of a line for a fact.
type said struct {
	text  string
	class Class
}

// about is the part of a line around its innermost error, which has the class and ends at a
// place.
func about(line string, class Class, at int) said {
	text := line[max(0, at-factMost):min(len(line), at+factMost)]
	if i := strings.Index(text, "]: "); i >= 0 && at > factMost { // the syslog prefix names no target
		text = text[i:]
	}
	if len(text) < len(line) {
		text = strings.Clone(text) // and not the whole line
	}
	return said{text, class}
}

// fact reads the text.
func (s said) fact() Fact {
	f, text := Fact{Class: s.class}, s.text
	if f.Class == "" {
		return f
	}
	for _, one := range words().Targets {
		e := one.re.find(text)
		if e == nil {
			continue
		}
		m := e.re().FindStringSubmatch(text)
		f.Target = one.Kind
		for _, value := range m[1:] {
			if value != "" {
				f.Value = show.Line(strings.TrimRight(value, ".,:"))
				break
			}
		}
		break
	}
	if f.Target == "address" {
		if host, port, err := net.SplitHostPort(f.Value); err == nil && net.ParseIP(host) != nil && (port == "443" ||
			port == "6443") {
			f.Target = "API server"
		}
	}
	return f
}
