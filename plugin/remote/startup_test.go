//go:build linux

package remote

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// around runs each command between the texts of a start-up and a logout file.
func (b *bench) around(before, after string) *bench {
	b.machine.Shell = func(line string) *exec.Cmd {
		return exec.Command("/bin/bash", "-c", before+"\n"+line+"\nstatus=$?\n"+after+"\nexit $status", "bash", line)
	}
	return b
}

// The session finds its own lines, whatever the shell's files print around them and
// with or without line ends.
func TestStartUpFilesMayPrintAnything(t *testing.T) {
	for name, test := range map[string]struct{ before, after, shown string }{
		"a terminal's title":          {`printf '\033]0;builder\007'`, ``, `\x1b]0;builder\a`},
		"text without an end":         {"echo -n Welcome; echo -n and >&2", "echo -n Bye; echo -n and >&2", "Welcome"},
		"the end of the last session": {"echo -n " + overMark + zeros, "echo -n " + overMark + zeros, overMark + zeros},
		"the command":                 {`echo "$1"`, `printf %s "$1"`, "(the command)"},
		"events of another program":   {`printf '{"event":"hello","message":"9"}\n{"event":"finished"'`, `printf '{"event":"x"}'`, `{"event":"hello","message":"9"}`},
		"a lot":                       {"yes | head -c 300000; yes | head -c 70000 | tr -d '\\n'", "yes | head -c 20000", "y"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "murmur").overSSH().around(test.before, test.after)
			require.NoError(t, b.session.Run(t.Context(), b.request))
			lines := b.screen.lines()
			assert.Contains(t, strings.Join(lines, "\n"), "  (the machine) "+test.shown)
			assert.Contains(t, lines, "  warning: at work")
			assert.Contains(t, lines, "provision ok: 0 steps, 0 changed, 0 actions, 3.0 s")
			b.screen.printable(t)
			b.untouched()
		})
	}
}

// Nothing is sent before the machine's shell runs the command: a start-up file could
// read it.
func TestStartUpFilesThatEndTheSession(t *testing.T) {
	const hint = "; most often the cause is exit in a start-up file of the shell, such as ~/.bashrc, a ForceCommand in sshd_config(5), or a login shell such as /bin/false or nologin"
	for name, test := range map[string]struct{ file, want string }{
		"exit":      {"exit", "the machine ended the session without running the command (exit status 0) and printed: nothing" + hint},
		"a message": {"echo No entry; echo 'for you' >&2; exit 3", "the machine ended the session without running the command (exit status 3) and printed"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "done").overSSH()
			// The probe is let through.
			b.around(`case $1 in *mkdir*agent*) `+test.file+";; esac", "")
			err := b.session.Run(t.Context(), b.request)
			require.ErrorContains(t, err, test.want)
			require.ErrorContains(t, err, hint)
			if name == "a message" {
				assert.Contains(t, b.kept().Error, "No entry")
				assert.Contains(t, b.kept().Error, "for you")
			}
			assert.Len(t, b.machine.Asked(), 2)
			b.untouched()
		})
	}
}

// An agent that does not arrive ends the session with the reason.
func TestAgentsThatDoNotArrive(t *testing.T) {
	const never = "no progress for 1 min 0 s: the machine's shell has not begun to run the command: a start-up file of the shell, such as ~/.bashrc, does not end or reads standard input, or nothing reaches the machine any more"
	for name, test := range map[string]struct {
		file     string
		commands int
		want     string // beginning
	}{
		"a start-up file that reads":         {"echo Your name?; touch FIFO.there; cat >/dev/null; exit", 2, never + "; the machine printed (its output is above)"},
		"a start-up file that does not end":  {"touch FIFO.there; read x <FIFO; exit", 2, never},
		"a line that takes nothing":          {"dd() { touch FIFO.there; read x <FIFO; exit 9; }; export -f dd; sh() { bash \"$@\"; }", 3, "no progress for 1 min 0 s: the machine has taken "},
		"an agent that is taken and is mute": {"gzip() { cat; touch FIFO.there; cat <FIFO; exit 9; }; export -f gzip; sh() { bash \"$@\"; }", 3, "no progress for 1 min 0 s: the agent was sent and has not started"},
	} {
		t.Run(name, func(t *testing.T) {
			fifo := filepath.Join(t.TempDir(), "fifo")
			require.NoError(t, syscall.Mkfifo(fifo, 0o666))
			hold, err := os.OpenFile(fifo, os.O_RDWR, 0)
			require.NoError(t, err)
			b := newBench(t, "done").overSSH()
			b.around(`case $1 in *mkdir*agent*) `+strings.ReplaceAll(test.file, "FIFO", fifo)+";; esac", "")
			began := time.Now()
			var hours atomic.Int64
			b.session.Now = func() time.Time { // time passes when the machine is there
				if _, err := os.Stat(fifo + ".there"); err == nil {
					hours.Add(1)
				}
				return began.Add(time.Duration(hours.Load()) * time.Hour)
			}
			b.session.Limits.Heartbeat = 100 * time.Millisecond
			if name == "a line that takes nothing" { // more than the buffers on the way take
				b.session.Agent = func(string) ([]byte, error) { return make([]byte, 16<<20), nil }
			}
			err = b.session.Run(t.Context(), b.request)
			require.NoError(t, hold.Close()) // the shell ends
			require.Error(t, err)
			assert.True(t, strings.HasPrefix(err.Error(), test.want), err)
			assert.Len(t, b.machine.Asked(), test.commands)
			assert.Equal(t, "failed", string(b.kept().Result))
		})
	}
}

// After a time-out, Packer prints no error, and after max_retries only that of the
// first attempt.
func TestErrorsThatPackerDropsArePrinted(t *testing.T) {
	b := newBench(t, "done").overSSH().around("cat >/dev/null; exit", "")
	b.around(`case $1 in *mkdir*agent*) echo Your name?; cat >/dev/null; exit;; esac`, "")
	ctx, cancel := context.WithCancelCause(t.Context())
	over := make(chan error, 1)
	go func() { over <- b.session.Run(ctx, b.request) }()
	b.screen.rest(t, "  (the machine) Your name?")
	cancel(errors.New("time is up"))
	err := <-over
	require.ErrorContains(t, err, "interrupted (time is up): the machine's shell has not begun to run the command: a start-up file")
	assert.Contains(t, b.screen.lines(), err.Error())

	b = newBench(t, "fail").overSSH()
	for attempt := range 2 {
		err := b.session.Run(t.Context(), b.request)
		require.Error(t, err)
		assert.Equal(t, attempt == 1, strings.Contains(strings.Join(b.screen.lines(), "\n"), err.Error()))
	}
}

// Sending prints how far it is.
func TestSendingPrintsItsProgress(t *testing.T) {
	b := newBench(t, "done").overSSH()
	began := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	var calls atomic.Int64
	b.session.Now = func() time.Time { // each call is eleven seconds later
		return began.Add(time.Duration(calls.Add(11)) * time.Second)
	}
	b.session.Limits.Heartbeat, b.session.Limits.Arrival = time.Millisecond, 10_000*time.Hour
	require.NoError(t, b.session.Run(t.Context(), b.request))
	b.screen.rest(t, "  agent: send eksnode: ")
}
