package remote

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"

	"github.com/eksnode/packer-plugin-eksnode/internal/session/agent"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/console"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/page"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// The limits of what a machine may print on the screen. The report has everything.
const (
	shownMost = 4 << 10 // bytes of a line
	linesMost = 20_000
	errorMost = 16 << 10 // bytes of the session's error
)

// screen is Packer's Ui for text from machines. It makes each text printable and one
// line, cuts long lines, and prints at most linesMost lines.
type screen struct {
	packersdk.Ui
	mu    sync.Mutex
	shown int
}

// PrintAudit prints the report of the audit of a disk, with texts that the disk has sent.
func PrintAudit(ui packersdk.Ui, r *plan.Report) {
	console.New(&screen{Ui: ui}, console.Options{Command: string(agent.Audit), Now: time.Now}).Finish(r)
}

func (s *screen) Say(text string) { s.show(s.Ui.Say, text) }

func (s *screen) Error(text string) { s.show(s.Ui.Error, text) }

func (s *screen) show(say func(string), text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.shown++; {
	case s.shown == linesMost:
		say("(no more lines are shown; the report has the rest)")
	case s.shown < linesMost:
		say(show.Line(clipped(text, shownMost)))
	}
}

// Reopen starts the count of lines again, so that the last lines are shown.
func (s *screen) Reopen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown = 0
}

// clipped is the beginning of a text that is too long.
func clipped(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:most] + fmt.Sprintf(" … (%d bytes more)", len(text)-most)
}

// shownError is an error as Packer may print it.
type shownError struct{ error }

func (e shownError) Error() string {
	text := e.error.Error()
	if short, ok := errors.AsType[*briefError](e.error); ok {
		text = strings.Replace(text, short.Error(), short.brief, 1)
	}
	return show.Printable(clipped(text, errorMost))
}

func (e shownError) Unwrap() error { return e.error }

// shown is err as Packer may print it.
func shown(err error) error {
	if err == nil {
		return nil
	}
	return shownError{err}
}

// asideMost bounds one line of standard error.
const asideMost = 64 << 10

// lines is a writer that calls each with whole lines, without line ends. Flush
// passes on the last line. A line of more than most bytes is passed on in pieces.
type lines struct {
	most int
	each func(line []byte)
	rest []byte
}

// Write implements io.Writer. It never fails.
func (l *lines) Write(p []byte) (int, error) {
	written := len(p)
	for len(p) > 0 {
		piece, rest, ends := p, []byte(nil), false
		if i := bytes.IndexByte(p, '\n'); i >= 0 {
			piece, rest, ends = p[:i], p[i+1:], true
		}
		if room := l.most - len(l.rest); len(piece) > room {
			piece, rest, ends = p[:room], p[room:], true
		}
		l.rest = append(l.rest, piece...)
		if ends {
			l.Flush()
		}
		p = rest
	}
	return written, nil
}

// Flush passes on the last line unless that line is empty.
func (l *lines) Flush() {
	if line := bytes.TrimRight(l.rest, "\r"); len(line) > 0 {
		l.each(line)
	}
	l.rest = l.rest[:0]
}

// Kept is the file of a provisioner's report. From the first run on, the file
// belongs to the provisioner's process. Packer has one process for each
// provisioner of each build, so two provisioners never share a file. The zero value
// has no file yet.
type Kept struct {
	file *plan.ReportFile
	runs int
}

// begin claims the file at path for a run. A retry claims the provisioner's own
// file again.
func (k *Kept) begin(path string, begun plan.Report) error {
	if k.file != nil {
		if err := k.file.Close(); err != nil {
			return fmt.Errorf("report: %w", err)
		}
		k.file = nil
	}
	file, err := plan.ClaimReport(path, begun, func(r plan.Report) ([]byte, error) { return page.Report(path, r) })
	switch {
	case errors.As(err, new(*plan.InUseError)):
		return fmt.Errorf(`report: %w; give each provisioner and each build a file of its own, such as %s`, err,
			perSource(path))
	case err != nil:
		return fmt.Errorf("report: %w; nothing was done on the machine", err)
	}
	k.file = file
	return nil
}

func (k *Kept) write(r plan.Report) error {
	if err := k.file.Write(r); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

func perSource(path string) string {
	extension := filepath.Ext(path)
	return strings.TrimSuffix(path, extension) + "-${source.name}" + extension
}

// verdict returns the error of a session that has ended. said is what the machine
// printed last beside the events.
func (s *Session) verdict(m *machine, h heard, end ending, said string) error {
	switch {
	case end.err != nil:
		return fmt.Errorf("starting the agent on the machine: %w", end.err)
	case !h.begun:
		return notRun(end, said)
	case h.err != nil:
		return h.err
	case h.report == nil:
		return s.unfinished(m, h, end, said)
	case end.lost():
		return fmt.Errorf("%w after the agent had finished, so its exit status is not known", errLost)
	case end.status != h.report.Result.ExitCode():
		return fmt.Errorf("the agent finished with the result %q, which exits with %d, but exited with %d%s",
			h.report.Result, h.report.Result.ExitCode(), end.status, after(said))
	case end.status != 0:
		return fmt.Errorf("%s %s: %s", h.report.Command, h.report.Result, cmp.Or(h.report.Error, unshown(h.report)))
	}
	return nil
}

// briefError is an error whose details the lines of the session show already.
// Error is the whole text, for the report; brief is the text for Packer, which
// prints an error twice at the end of a build.
type briefError struct {
	error
	brief string
}

// Unwrap gives errors.Is and errors.As the whole error.
func (e *briefError) Unwrap() error { return e.error }

// brief leaves out of a session's error what its lines show: the errors of items
// and findings, and the output of the machine. said is that output.
func brief(err error, h heard, said string) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if h.report != nil && h.report.Error != "" {
		text = strings.Replace(text, h.report.Error, unshown(h.report), 1)
	}
	if said != "" && h.allShown {
		text = strings.Replace(text, after(said), " (its output is above)", 1)
	}
	return &briefError{err, text}
}

// unshown is a report's error without the errors of items and the findings. It
// names the items.
func unshown(r *plan.Report) string {
	rest := r.Error
	var failed, found, rules []string
	for _, p := range r.Problems() {
		if p.Error != "" {
			rest = strings.Replace(rest, p.Error, "", 1)
			failed = append(failed, p.Item)
		}
		if len(p.Actions)+len(p.Findings) > 0 {
			found = append(found, p.Item)
		}
		// An audit's actions are what a clean-up has left.
		if (len(p.Findings) > 0 || r.Command == string(agent.Audit)) && !slices.Contains(rules, strconv.Quote(p.Item)) {
			rules = append(rules, strconv.Quote(p.Item))
		}
	}
	switch {
	case len(failed) > 0 && r.Result == plan.Unknown:
		return "some checks could not run: " + strings.Join(failed, ", ") + "; the errors are above"
	case len(failed) > 0:
		parts := []string{strings.Join(failed, ", ") + ": the error is above"}
		for line := range strings.Lines(rest) {
			if line = strings.Trim(line, "; \n"); line != "" {
				parts = append(parts, line)
			}
		}
		return strings.Join(parts, "; ")
	case r.Result != plan.Findings:
		return r.Error
	case len(rules) == 0:
		return "a running program has written again after the scrub, stop that program first: " +
			strings.Join(found, ", ") + "; the files are above"
	}
	return fmt.Sprintf("a person has to decide: the findings are above; resolve them, or set skip_rules = [%s]",
		strings.Join(rules, ", "))
}

// unfinished returns the error of a session without the end marker.
func (s *Session) unfinished(m *machine, h heard, end ending, said string) error {
	switch {
	case end.lost():
		return fmt.Errorf("%w before the agent had finished; what it had done is finished by the next run%s", errLost,
			after(said))
	case end.status == 0:
		return fmt.Errorf("the agent's session ended with status 0 but without its end marker: %w%s", errLost,
			after(said))
	case h.hello && end.status > 128:
		return fmt.Errorf("the agent was killed by signal %d before it had finished (9 is most often the kernel, out "+
			"of memory)%s", end.status-128, after(said))
	case h.hello:
		return fmt.Errorf("the agent exited with status %d before it had finished%s", end.status, after(said))
	}
	return s.unstarted(m, end.status, said)
}

// reasonsFile lists the reasons of an agent that does not start.
//
//go:embed reasons.yaml
var reasonsFile []byte

// reason is a row of reasonsFile.
type reason struct {
	Says   []string `yaml:"says"`
	Status []int    `yaml:"status"`
	Why    string   `yaml:"why"`
}

// reasons is the content of reasonsFile.
var reasons = sync.OnceValue(func() (r struct {
	Start []reason `yaml:"start"`
	Sudo  []reason `yaml:"sudo"`
}) {
	strictjson.Ours("reasons.yaml", reasonsFile, &r)
	return r
})

// why is the text of the first row for an output or an exit status, with the values of names.
func why(rows []reason, said string, status int, names ...string) string {
	has := func(text string) bool { return strings.Contains(said, text) }
	i := slices.IndexFunc(rows, func(r reason) bool {
		return slices.Contains(r.Status, status) || slices.ContainsFunc(r.Says, has)
	})
	return strings.NewReplacer(names...).Replace(rows[i].Why)
}

// unstarted returns the error of a session in which the agent sent no event.
func (s *Session) unstarted(m *machine, status int, said string) error {
	return errors.New(why(reasons().Start, said, status, "{folder}", s.Config.RemoteFolder,
		"{elsewhere}", "set remote_folder to another folder, such as "+m.facts["home"], "{arch}", m.arch,
		"{sudo}", s.Config.private(s.Config.SudoCommand), "{allow}", m.allowing(said),
		"{status}", strconv.Itoa(status), "{said}", after(said)))
}

// allowing is the remedy for a sudo command that printed this.
func (m *machine) allowing(said string) string {
	if m.facts["sudo"] != "" {
		return "install its program"
	}
	return why(reasons().Sudo, said, -1, "{user}", m.facts["user"])
}

// after is the machine's output as the end of a sentence.
func after(said string) string {
	if said == "" {
		return ""
	}
	return ": " + said
}

// interrupted returns the error of a run that was stopped from outside.
func interrupted(cause error, h heard, end ending, ended bool) error {
	switch {
	case !h.begun:
		return fmt.Errorf("interrupted (%w): %s", cause, notBegun(h.before))
	case h.item != "" && h.report == nil:
		cause = fmt.Errorf("%w, during %s", cause, h.item)
	}
	switch {
	case !ended:
		return fmt.Errorf("interrupted (%w): the agent did not stop in time; the agent may work until its current "+
			"action ends", cause)
	case end.lost(), end.err != nil:
		return fmt.Errorf("interrupted (%w): the connection was lost meanwhile; an agent without one stops by itself",
			cause)
	}
	return fmt.Errorf("interrupted (%w): the agent has stopped; the next run finishes what is left", cause)
}

// errDeaf means that the session of a finished agent did not end.
var errDeaf = errors.New("the agent had finished but its session did not end")
