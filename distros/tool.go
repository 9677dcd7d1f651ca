package distros

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// tool runs a package manager's command.
type tool struct {
	// words is the number of words of a command line that describe the command
	// to a person; options follow.
	words int
	env   []string
	// symptoms is the name of the tool in symptoms.yaml.
	symptoms string
	// locked matches the tool's message about another running process. Its group,
	// if it has one, is the file that the process has locked.
	locked string
	// waits matches the end of the output of a tool that waits for another process
	// by itself, without a limit.
	waits string
	// log is a file with messages about locks that the tool does not print.
	log      string
	patience time.Duration
}

// run runs a command and waits while another process holds the lock. The error
// has the meaning of a known symptom, and the last lines of the output.
func (t tool) run(ctx context.Context, h *host.Host, argv []string) error {
	locked := regexp.MustCompile(t.locked)
	return patiently(ctx, t.patience, func(limit context.Context) (bool, error) {
		before := len(t.logged(h))
		said, err := t.watched(ctx, limit, h, argv)
		var failed *host.CommandError
		if !errors.As(err, &failed) {
			return false, err
		}
		said += newLocks(before, t.logged(h), locked)
		short := host.Command{Argv: argv[:min(t.words, len(argv))]}
		err = t.explain(&host.CommandError{Command: short, Output: lastLines(said, 8), Err: failed.Err}, said)
		found := locked.FindStringSubmatch(said)
		return t.locked != "" && found != nil, withHolder(h, err, found)
	})
}

// watched runs a command and returns its output. It stops a command that waits
// for a lock when limit has ended.
func (t tool) watched(ctx, limit context.Context, h *host.Host, argv []string) (string, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	// The shell only joins standard error to standard output: apt and dnf
	// print errors on both, and the cause may come long before the end.
	joined := append([]string{"sh", "-c", `exec "$@" 2>&1`, argv[0]}, argv...)
	command := host.Command{Argv: joined, Env: append([]string{"LC_ALL=C"}, t.env...)}
	if t.waits == "" {
		out, err := h.Run(ctx, command)
		return string(out), err
	}
	w := newWatch(t.waits, limit, func() {
		stop(fmt.Errorf("stopped, because it waited for a lock longer than %s", t.patience))
	})
	defer w.end()
	command.Stdout = w
	_, err := h.Run(ctx, command)
	return string(w.text), err
}

// logged returns the tool's log; a log that cannot be read explains nothing.
func (t tool) logged(h *host.Host) string {
	if t.log == "" {
		return ""
	}
	text, err := h.Content(t.log)
	if err != nil {
		return ""
	}
	return string(text)
}

// newLocks returns the messages about locks that a log has and had not before.
func newLocks(before int, log string, locked *regexp.Regexp) string {
	if len(log) < before { // a new log
		before = 0
	}
	var all strings.Builder
	for line := range strings.Lines(log[before:]) {
		if at := locked.FindStringIndex(line); at != nil {
			all.WriteString(line[at[0]:])
		}
	}
	return all.String()
}

// withHolder adds the process that holds the lock in a match of tool.locked.
func withHolder(h *host.Host, err error, found []string) error {
	var known *explained
	if len(found) < 2 || found[1] == "" || !errors.As(err, &known) {
		return err
	}
	if holder := h.LockHolder(found[1]); holder != "" {
		known.hint += " and has locked " + found[1] + " (" + holder + ")"
	}
	return err
}

// lockPatience is how long to wait for another process, such as Debian's daily
// run, which starts with the machine.
const lockPatience = 5 * time.Minute

// patiently repeats do while another process holds a lock. The context of do ends
// with the patience.
func patiently(ctx context.Context, patience time.Duration,
	do func(limit context.Context) (locked bool, err error)) error {
	limit, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		locked, err := do(limit)
		if err == nil || !locked || limit.Err() != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-time.After(time.Second):
		case <-limit.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
	}
}

// watch collects a command's output, and stops the command when the output ends in
// a message of waiting and the limit has ended.
type watch struct {
	waits *regexp.Regexp
	limit context.Context
	stop  func()
	// end removes the hook on limit.
	end func() bool

	mutex sync.Mutex
	text  []byte
}

// watchMost is how much output watch keeps, in bytes: a cause comes before the
// end, but not before more than the lists of packages.
const watchMost = 4 << 20

// settling is how long a message of waiting may take until it is complete: the
// lines after the first name the processes.
const settling = time.Second

func newWatch(waits string, limit context.Context, stop func()) *watch {
	w := &watch{waits: regexp.MustCompile(waits), limit: limit, stop: stop}
	w.end = context.AfterFunc(limit, w.check)
	return w
}

// Write implements io.Writer.
func (w *watch) Write(p []byte) (int, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.text = append(w.text, p...)
	if len(w.text) > watchMost {
		w.text = append([]byte(nil), w.text[len(w.text)-watchMost/2:]...)
	}
	if w.limit.Err() != nil {
		time.AfterFunc(settling, w.check)
	}
	return len(p), nil
}

// check stops a command that waits.
func (w *watch) check() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.waits.Match(w.text) {
		w.stop()
	}
}
