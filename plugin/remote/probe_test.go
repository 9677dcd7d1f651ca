//go:build linux

package remote

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/packer-plugin-sdk/communicator"
	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// zeros is the name of a session whose random source is zeros.
const zeros = "0000000000000000"

// nobody is the unprivileged user ID of every Linux.
const nobody = 65534

// asUser makes the machine's commands run as a plain user, with additional
// programs of the given names.
func (b *bench) asUser(programs map[string]string) {
	folder, err := os.MkdirTemp("", "eksnode-test-")
	require.NoError(b.t, err)
	b.t.Cleanup(func() { require.NoError(b.t, os.RemoveAll(folder)) })
	require.NoError(b.t, os.Chmod(folder, 0o755))
	for name, script := range programs {
		require.NoError(b.t, os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	b.machine.Shell = func(line string) *exec.Cmd {
		cmd := exec.Command("/bin/sh", "-c", line)
		cmd.Dir = "/"
		cmd.Env = []string{"PATH=" + folder + ":/usr/bin:/bin"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		return cmd
	}
}

func TestProbeWithoutACommunicatorFails(t *testing.T) {
	b := newBench(t, "done")
	b.session.Comm = connect(t, communicator.Config{Type: "none"}, &packersdk.BasicUi{Writer: io.Discard})
	require.EqualError(t, b.session.Run(t.Context(), b.request),
		`looking at the machine: the communicator answered success without running anything, as communicator = "none" does, or a start-up file of the shell that calls exit; this provisioner needs a communicator that runs commands, such as communicator = "ssh"`)
	assert.Contains(t, b.kept().Error, "answered success without running anything")
}

// A shell that prints the answer replaces machines that the test does not have.
func TestProbeRefusesMachinesThatCannotBeNodes(t *testing.T) {
	const begin = "printf 'Welcome\\n" + beginMark + zeros + "\\n"
	const root = "uid=0\\nuser=root\\nhome=/root\\nsudo-says\\n\\nroot=yes\\nsudo-said\\nfolder=/tmp\\nwritable=yes\\n"
	const end = "os-release\\nID=debian\\n" + overMark + zeros + "\\n'"
	const ended = "; most often the cause is exit in a start-up file of the shell, such as ~/.bashrc, a ForceCommand in sshd_config(5), or a login shell such as /bin/false or nologin"
	for name, test := range map[string]struct{ answer, want string }{
		"a wrong architecture": {
			begin + "arch=riscv64\\n" + root + end,
			`the machine's architecture is "riscv64"; supported are x86_64 (amd64) and aarch64 (arm64)`,
		},
		"no os-release": {
			begin + "arch=x86_64\\n" + root + "os-release\\n" + overMark + zeros + "\\n'",
			"the machine has no /etc/os-release (or it is empty), which every distribution has; is this the machine to make an image of?",
		},
		"tools missing": {
			begin + "arch=x86_64\\n" + root + "missing=dd\\nmissing=gzip\\n" + end,
			"the machine lacks dd, gzip; install them before this provisioner, they are in the packages coreutils and gzip",
		},
		"programs of another architecture": {
			begin + "arch=aarch64\\nelf= 3e 00\\n" + root + end,
			`uname -m on the machine says aarch64, but its /bin/sh is a program for another architecture (ELF machine "3e 00", not "b7 00"): the agent for linux/arm64 would not run there`,
		},
		"a folder behind a link with spaces": {
			begin + "arch=x86_64\\nuid=0\\nuser=root\\nhome=/root\\nsudo-says\\n\\nroot=yes\\nsudo-said\\nfolder=/my files\\nwritable=yes\\n" + end,
			`the folder /FOLDER on the machine is a link to "/my files", whose name has other characters than letters, digits, '.', '_', '-' and '/'; set remote_folder to another folder, such as /root`,
		},
		"an answer cut short": {
			begin + "arch=x86_64\\n'",
			"the machine's answer was cut short (exit status 0): the connection to the machine was lost",
		},
		"only a banner": {
			"echo You may not run commands here",
			"the machine ended the session without running the command (exit status 0) and printed: You may not run commands here" + ended,
		},
		"no shell": {
			"echo This account is currently not available. >&2; exit 1",
			"the machine ended the session without running the command (exit status 1) and printed: This account is currently not available." + ended,
		},
		"/bin/false as the shell": {
			"exec false",
			"the machine ended the session without running the command (exit status 1) and printed: nothing" + ended,
		},
		"a command that repeats ours": {
			`echo "fatal: what is '$0'? sh -c 'LC_ALL=C; export LC_ALL; echo'" >&2; exit 128`,
			"the machine ended the session without running the command (exit status 128) and printed: fatal: what is '/bin/sh'? (the command)" + ended,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "done").overSSH()
			b.machine.Shell = func(string) *exec.Cmd { return exec.Command("/bin/sh", "-c", test.answer) }
			b.session.Config.RemoteFolder = "/FOLDER"
			b.session.Random = bytes.NewReader(make([]byte, 8))
			require.EqualError(t, b.session.Run(t.Context(), b.request), "looking at the machine: "+test.want)
			assert.Len(t, b.machine.Asked(), 1)
			assert.Contains(t, test.want, b.kept().Error[len("looking at the machine: "):])
		})
	}
}

func TestProbeRefusesACommunicatorWithATerminal(t *testing.T) {
	b := newBench(t, "done").overSSH()
	b.machine.Terminal = true
	require.EqualError(t, b.session.Run(t.Context(), b.request),
		"looking at the machine: the communicator gives commands a terminal, which would garble the agent; remove ssh_pty = true")
}

func TestProbeAsAPlainUser(t *testing.T) {
	for name, test := range map[string]struct {
		sudo     string
		programs map[string]string
		want     string
	}{
		"without sudo": {
			"no-such-sudo -n --", nil,
			"looking at the machine: the user nobody (uid 65534) is not root and `no-such-sudo -n -- env true` failed: sh: 1: no-such-sudo: not found; install its program, connect as root, or set sudo_command",
		},
		"with a sudo that needs a password": {
			"sudo -n --", map[string]string{"sudo": `echo "sudo: a password is required" >&2; exit 1`},
			"looking at the machine: the user nobody (uid 65534) is not root and `sudo -n -- env true` failed: sudo: a password is required; allow it in sudoers(5) with NOPASSWD, connect as root, or set sudo_command",
		},
		"with a sudo that needs a terminal": {
			"sudo -n --", map[string]string{"sudo": `echo "sudo: sorry, you must have a tty to run sudo" >&2; exit 1`},
			"looking at the machine: the user nobody (uid 65534) is not root and `sudo -n -- env true` failed: sudo: sorry, you must have a tty to run sudo; exempt the user in sudoers(5) with `Defaults:nobody !requiretty`, connect as root, or set sudo_command",
		},
		"with a secure_path without the folder of env": {
			"sudo -n --", map[string]string{"sudo": `echo "sudo: env: command not found" >&2; exit 1`},
			"looking at the machine: the user nobody (uid 65534) is not root and `sudo -n -- env true` failed: sudo: env: command not found; add the folder of env, most often /usr/bin, to secure_path in sudoers(5), connect as root, or set sudo_command",
		},
		"with noexec": {
			"sudo -n --", map[string]string{"sudo": `echo "env: 'true': Permission denied" >&2; exit 126`},
			"looking at the machine: the user nobody (uid 65534) is not root and `sudo -n -- env true` failed: env: 'true': Permission denied; remove noexec in sudoers(5) for the user, with which a program cannot run others, connect as root, or set sudo_command",
		},
		"with a password in its command": {
			"become --pass=hunter2 -u root hunter3", map[string]string{"become": `echo "become: $*: no" >&2; exit 1`},
			"looking at the machine: the user nobody (uid 65534) is not root and `become … -u root … env true` failed: become: … -u root … env true: no; run it on the machine to see why, connect as root, or set sudo_command",
		},
		"with a sudo that works": {
			"sudo -n --", map[string]string{"sudo": `test "$1 $2" = "-n --" && shift 2 && exec "$@"`}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "look").overSSH()
			b.session.Config.SudoCommand = test.sudo
			b.asUser(test.programs)
			err := b.session.Run(t.Context(), b.request)
			if test.want != "" {
				require.EqualError(t, err, test.want)
			} else {
				require.NoError(t, err)
				b.screen.rest(t, "  warning: umask 022, in /, folder gone: true")
			}
			b.untouched()
		})
	}
}

// Root does not need sudo, which may not be installed.
func TestProbeAsRootWithoutSudo(t *testing.T) {
	b := newBench(t, "look").overSSH()
	b.session.Config.SudoCommand = "no-such-sudo"
	require.NoError(t, b.session.Run(t.Context(), b.request))
}

// Unknown values are accepted at validate, but must never reach a shell.
func TestRunRefusesUnknownValues(t *testing.T) {
	b := newBench(t, "done").overSSH()
	b.session.Config.RemoteFolder = "/home/<unknown>"
	require.EqualError(t, b.session.Run(t.Context(), b.request),
		`remote_folder: "/home/<unknown>" is not a clean absolute path of letters, digits, '.', '_', '-' and '/', such as /var/tmp`)
	assert.Empty(t, b.machine.Asked())
}

func TestProbeOfASilentMachineTimesOut(t *testing.T) {
	b := newBench(t, "done").overSSH()
	b.machine.Shell = func(string) *exec.Cmd { return exec.Command("/bin/sh", "-c", "cat") }
	b.session.Limits.Probe = 1 // one nanosecond, which ends before any answer
	require.EqualError(t, b.session.Run(t.Context(), b.request), "looking at the machine: no answer within 0 ms; the machine's shell has not begun to run the command: a start-up file of the shell, such as ~/.bashrc, does not end or reads standard input, or nothing reaches the machine any more")
}

// FuzzProbe reads any answer of a machine: the answer is parsed or refused.
func FuzzProbe(f *testing.F) {
	f.Add("arch=x86_64\nelf= 3e 00\nuid=0\nuser=root\nhome=/root\nsudo-says\n\nroot=yes\nsudo-said\nfolder=/tmp\nwritable=yes\nmissing=dd\nmissing=dd\nos-release\nID=debian\nPRETTY_NAME=\"x\x1b[2J\"\n")
	f.Add("arch\n=\nos-release\n=\n")
	f.Fuzz(func(t *testing.T, answer string) {
		m := parseProbe(answer)
		assert.LessOrEqual(t, len(m.missing), len(tools))
		c := Config{RemoteFolder: "/tmp", SudoCommand: "sudo -n --"}
		if err := m.demand(c); err != nil {
			text := shown(err).Error()
			assert.Equal(t, show.Printable(text), text)
			return
		}
		assert.Regexp(t, plainPath, m.facts["folder"])
		assert.Contains(t, elfMachines, m.arch)
	})
}

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
