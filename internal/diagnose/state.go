package diagnose

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// stateFile is a kind of file that shows a cause without a log line. It has one pattern.
type stateFile struct {
	// Names are the ends of the files' names in folders and archives. Names from the top
	// folders of a machine are also read in image roots.
	Names []string `json:"names"`
	// Has matches a line that shows the cause, and Lacks one without which a file does.
	Has   string `json:"has"`
	Lacks string `json:"lacks"`
	// Say matches a value of a kind that another file must not contradict.
	Say  string `json:"say"`
	Kind string `json:"kind"`

	cause string
	re    *regexp.Regexp
}

func (f stateFile) pattern() string { return cmp.Or(f.Has, f.Lacks, f.Say) }

// stateFiles are those of all rules.
var stateFiles = sync.OnceValue(func() (all []stateFile) {
	for _, r := range Rules() {
		for _, f := range r.Files {
			f.cause, f.re = r.ID, regexp.MustCompile(f.pattern())
			all = append(all, f)
		}
	}
	return all
})

// userDataFile is the end of the name of a file with user data.
const userDataFile = "/var/lib/cloud/instance/user-data.txt"

// comments are how lines of these files begin that say nothing.
const comments = "#;"

// stateMost is how much of a file with state is read, in bytes.
const stateMost = 1 << 20

// stated is what a file or a setting of the machine shows.
type stated struct{ cause, fact string }

// state adds what a file shows about the machine.
func (s *Search) state(cause, format string, args ...any) {
	s.stated = append(s.stated, stated{cause, show.Line(fmt.Sprintf(format, args...))})
}

// isState says whether a file shows more than its log lines.
func isState(name string) bool {
	return slices.ContainsFunc(stateFiles(), func(f stateFile) bool { return f.is(name) })
}

func (f stateFile) is(name string) bool {
	return slices.ContainsFunc(f.Names, func(end string) bool { return strings.HasSuffix("/"+name, end) })
}

// look reads a file that isState. Its shown name is for people.
func (s *Search) look(shown, name, text string) {
	for _, f := range stateFiles() {
		if !f.is(name) {
			continue
		}
		missing := f.Lacks != ""
		for number, line := range strings.Split(text, "\n") {
			if line == "" || strings.ContainsRune(comments, rune(strings.TrimSpace(line + "#")[0])) {
				continue
			}
			switch {
			case f.Lacks != "":
				missing = missing && !f.re.MatchString(line)
			case f.Has != "" && f.re.MatchString(line):
				s.state(f.cause, "%s:%d: %s", shown, number+1, shorten(line, 0))
			case f.Say != "":
				if m := f.re.FindStringSubmatch(line); m != nil {
					s.compare(f.cause, f.Kind, fmt.Sprintf("%s:%d", shown, number+1), m[1])
				}
			}
		}
		if missing {
			s.state(f.cause, "%s: no line has what matches %q", shown, f.Lacks)
		}
	}
	if strings.HasSuffix("/"+name, userDataFile) {
		s.lookAtUserData(shown, text)
	}
}

// sayings are values that mean the same.
var sayings = map[string]string{"true": "systemd", "false": "cgroupfs"}

// compare keeps the first value of a kind, and states the cause if a later one differs.
func (s *Search) compare(cause, kind, place, value string) {
	if other := sayings[value]; other != "" {
		value = other
	}
	before, known := s.said[cause+kind]
	switch {
	case !known:
		s.said[cause+kind] = [2]string{place, value}
	case !strings.EqualFold(before[1], value):
		s.state(cause, "%s says %s, and %s says %s", before[0], before[1], place, value)
	}
}

// UserData checks user data, and returns its family and its faults. Text of no known form
// is another program's, and an error.
type UserData func(text []byte) (family string, faults []string, err error)

// WithUserData makes the search check user data. The check is not part of this package,
// because the agent does not have its libraries.
func (s *Search) WithUserData(check UserData) *Search {
	s.checkUserData = check
	return s
}

func (s *Search) lookAtUserData(shown, text string) {
	if s.checkUserData == nil {
		return
	}
	family, faults, err := s.checkUserData([]byte(text))
	if err != nil {
		return
	}
	cause := "node-config"
	switch own := family + "-settings"; {
	case family == "al2":
		cause = "arguments"
	case slices.ContainsFunc(s.rules, func(r Rule) bool { return r.ID == own }):
		cause = own
	}
	for _, fault := range faults {
		s.state(cause, "%s:%s", shown, fault)
	}
}

// Machine adds what a machine's settings and files show: the rows of the audit about
// settings that break nodes, and stateFiles. shown is what stands before paths.
func (s *Search) Machine(ctx context.Context, h *host.Host, shown string) error {
	var errs []error
	for _, r := range scrub.Table() {
		if r.Breaks == nil || r.Breaks.Note {
			continue
		}
		d := &scrub.Draft{Ctx: ctx, Host: h}
		r.Plan(d, nil)
		if d.Err != nil {
			errs = append(errs, fmt.Errorf("looking for %s: %w", r.ID, d.Err))
		}
		for _, f := range d.Answer.Findings {
			s.state(r.Breaks.Cause, "%s: %s: %s", r.ID, shown+f.Target, f.Reason)
		}
	}
	read := map[string]bool{}
	for _, f := range stateFiles() {
		for _, name := range f.Names {
			if read[name] || !slices.ContainsFunc([]string{"/etc/", "/var/", "/usr/"}, func(top string) bool {
				return strings.HasPrefix(name, top)
			}) {
				continue
			}
			read[name] = true
			text, err := h.Content(name)
			if err != nil {
				errs = append(errs, fmt.Errorf("looking at %s: %w", name, err))
			}
			if len(text) > 0 {
				s.look(shown+name, name, string(text[:min(len(text), stateMost)]))
			}
		}
	}
	return errors.Join(errs...)
}

// stateIn reads a file of a folder or an archive that isState, and returns its content
// again for the search of its lines.
func (s *Search) stateIn(from source, in io.Reader) (io.Reader, error) {
	text, err := io.ReadAll(io.LimitReader(in, stateMost))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", from.name, err)
	}
	if len(text) > 0 {
		s.look(show.Line(from.name), from.inner, string(text))
	}
	return io.MultiReader(bytes.NewReader(text), in), nil
}

// withState adds to findings what the machine's files and settings show. They blame
// nothing on a node that joined.
func (s *Search) withState(list []Finding) []Finding {
	for _, one := range s.stated {
		rule := slices.IndexFunc(s.rules, func(r Rule) bool { return r.ID == one.cause })
		i := slices.IndexFunc(list, func(f Finding) bool { return f.Rule.ID == one.cause })
		if i < 0 {
			i, list = len(list), append(list, Finding{Rule: s.rules[rule], proven: true, state: true})
		}
		if !slices.Contains(list[i].Evidence, one.fact) {
			list[i].add(func() string { return one.fact })
		}
	}
	return list
}
