//go:build linux

package remote

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/packer-plugin-sdk/common"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/version"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

func TestRunPrintsPhases(t *testing.T) {
	b := newBench(t, "done").overSSH()
	require.NoError(t, b.session.Run(t.Context(), b.request))

	lines := b.screen.lines()
	require.Regexp(t, `^Machine: .+ on (amd64|arm64), reached as root$`, lines[0])
	require.Regexp(t, `^Sending the agent `+regexp.QuoteMeta(version.String())+` for linux/(amd64|arm64), [0-9.]+ MB$`, lines[1])
	assert.Equal(t, []string{
		"  (the machine) Welcome to the machine",
		"  packages: 1 action, 1.4 s",
		"install: 1 step, 1 changed, 1.4 s",
		"  caches: 2 actions, 24 files (69.0 MB) removed, 35 ms",
		"  caches: for you to decide: /srv/data (unknown)",
		"  warning: the clock is off",
		"clean: 2 steps, 1 changed, 24 files (69.0 MB) removed, 1 finding, 35 ms",
		"provision ok: 3 steps, 2 changed, 3 actions, 24 files (69.0 MB) removed, 3.0 s",
	}, lines[2:])

	assert.Equal(t, plan.OK, b.kept().Result)
	assert.Len(t, b.machine.Asked(), 2)
	b.untouched()
}

// Verbose prints every step and every action.
func TestVerboseRunPrintsEveryAction(t *testing.T) {
	b := newBench(t, "done").overSSH()
	b.session.Verbose = true
	require.NoError(t, b.session.Run(t.Context(), b.request))
	assert.Equal(t, []string{
		"  (the machine) Welcome to the machine",
		"Phase: install",
		"  packages                     done      1 action, 1.4 s",
		"    install containerd (runs containers)",
		"install: 1 step, 1 changed, 1.4 s",
		"Phase: clean",
		"  caches                       done      2 actions, 24 files (69.0 MB) removed, 35 ms",
		"    remove /var/cache/apt (a package manager's cache)",
		"    remove /var/cache/apt (a package manager's cache)",
		"  caches: for you to decide: /srv/data (unknown)",
		"  sysctls                      unchanged 0 ms",
		"  warning: the clock is off",
		"clean: 2 steps, 1 changed, 24 files (69.0 MB) removed, 1 finding, 35 ms",
		"provision ok: 3 steps, 2 changed, 3 actions, 24 files (69.0 MB) removed, 3.0 s",
	}, b.screen.lines()[2:])
}

// Packer's -debug and PACKER_LOG make a session verbose, as the field verbose does.
func TestPackersDebugSwitchesMakeASessionVerbose(t *testing.T) {
	for name, c := range map[string]struct {
		config Config
		packer common.PackerConfig
		log    string
		want   bool
	}{
		"nothing":        {},
		"verbose = true": {config: Config{Verbose: true}, want: true},
		"-debug":         {packer: common.PackerConfig{PackerDebug: true}, want: true},
		"PACKER_LOG=1":   {log: "1", want: true},
		"PACKER_LOG=0":   {log: "0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PACKER_LOG", c.log)
			assert.Equal(t, c.want, New(c.config, c.packer, nil, nil, nil).Verbose)
		})
	}
}

// Packer and the machine log every command, so no command may contain the request.
func TestRunKeepsTheRequestOutOfCommands(t *testing.T) {
	b := newBench(t, "done").overSSH()
	b.request.Provision.Packages = []string{"hunter2"}
	require.NoError(t, b.session.Run(t.Context(), b.request))
	for _, command := range b.machine.Asked() {
		assert.NotContains(t, command, "hunter2")
	}
}

func TestRunWorksInOtherShells(t *testing.T) {
	for name, shell := range map[string]func(string) *exec.Cmd{
		"dash": func(line string) *exec.Cmd { return exec.Command("dash", "-c", line) },
		"bash": func(line string) *exec.Cmd { return exec.Command("bash", "-c", line) },
		// as packer-plugin-docker runs commands
		"docker": func(line string) *exec.Cmd { return exec.Command("/bin/sh", "-c", "("+line+")") },
		// as the SDK's chroot communicator runs them, here with the machine itself as the root
		"chroot": func(line string) *exec.Cmd {
			return exec.Command("/bin/sh", "-c", "chroot / /bin/sh -c "+strconv.Quote(line))
		},
		"after a login with output": func(line string) *exec.Cmd {
			return exec.Command("/bin/sh", "-c", "echo Hello from .bashrc; echo and again >&2\n"+line+"\nstatus=$?; echo Bye; exit $status")
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "look").overSSH()
			b.machine.Shell = shell
			require.NoError(t, b.session.Run(t.Context(), b.request))
			b.screen.rest(t, "  warning: umask 022, in /, folder gone: true, version "+version.String()+", command provision")
			b.untouched()
		})
	}
}

// The agent compares its own path with the remote folder, so the session resolves
// links first.
func TestRunInALinkedFolder(t *testing.T) {
	b := newBench(t, "look").overSSH()
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(b.folder, link))
	b.session.Config.RemoteFolder = link
	require.NoError(t, b.session.Run(t.Context(), b.request))
	b.untouched()
}

func TestRunSendsHeartbeats(t *testing.T) {
	b := newBench(t, "beats").overSSH()
	require.NoError(t, b.session.Run(t.Context(), b.request))
	assert.Equal(t, plan.OK, b.kept().Result)
}

func TestDryRunPrintsThePlan(t *testing.T) {
	b := newBench(t, "plan").overSSH()
	b.session.Config.DryRun = true
	require.NoError(t, b.session.Run(t.Context(), b.request))
	lines := b.screen.lines()
	assert.Equal(t, []string{
		"Phase: install",
		"  packages: would install runc (runs containers)",
		"provision planned: 2 steps, 1 action; nothing was changed, 3.0 s",
	}, lines[2:])
}

func TestProgressIsPrintedAtIntervals(t *testing.T) {
	b := newBench(t, "progress").overSSH()
	began := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	var calls atomic.Int64
	b.session.Now = func() time.Time { // each call is six seconds later
		return began.Add(time.Duration(calls.Add(6)) * time.Second)
	}
	b.session.Limits.Heartbeat = time.Hour
	require.NoError(t, b.session.Run(t.Context(), b.request))
	lines := b.screen.lines()
	assert.Contains(t, lines, "  kubelet: fetch kubelet: 10.0 MB of 50.0 MB (20 %)")
	assert.Contains(t, lines, "  kubelet: fetch kubelet: 30.0 MB of 50.0 MB (60 %)")
	assert.Equal(t, []string{
		"  kubelet: 1 action, 50.0 MB fetched, 1 min 0 s",
		"install: 1 step, 1 changed, 50.0 MB fetched, 1 min 0 s",
		"provision ok: 1 step, 1 changed, 1 action, 50.0 MB fetched, 3.0 s",
	}, lines[len(lines)-3:])
}

func TestRunWithoutReport(t *testing.T) {
	b := newBench(t, "done").overSSH()
	b.session.Config.Report = ""
	require.NoError(t, b.session.Run(t.Context(), b.request))
	assert.NoFileExists(t, b.report)
}

func TestAnInterruptStopsTheAgent(t *testing.T) {
	b := newBench(t, "wait").overSSH()
	ctx, cancel := context.WithCancelCause(t.Context())
	over := make(chan error, 1)
	go func() { over <- b.session.Run(ctx, b.request) }()
	pid := b.pid()
	cancel(errors.New("Ctrl-C"))
	require.EqualError(t, <-over, "interrupted (Ctrl-C): the agent has stopped; the next run finishes what is left")
	gone(t, pid)
	assert.Equal(t, "stopped", b.kept().Error)
	assert.Len(t, b.machine.Asked(), 2)
	b.untouched()
}

func TestAnInterruptOfABlockedAgentReturns(t *testing.T) {
	end := filepath.Join(t.TempDir(), "end")
	b := newBench(t, "deaf:"+end).overSSH()
	b.session.Limits.Ending = 10 * time.Millisecond
	ctx, cancel := context.WithCancelCause(t.Context())
	over := make(chan error, 1)
	go func() { over <- b.session.Run(ctx, b.request) }()
	pid := b.pid()
	cancel(errors.New("time is up"))
	const want = "interrupted (time is up): the agent did not stop in time; the agent may work until its current action ends"
	require.EqualError(t, <-over, want)
	assert.Equal(t, plan.Failure, b.kept().Result)
	assert.Equal(t, want, b.kept().Error)
	assert.Len(t, b.machine.Asked(), 3)
	b.untouched()
	require.NoError(t, os.WriteFile(end, nil, 0o600))
	gone(t, pid)
}

// After a time-out, Packer passes the same cancelled context to every retry.
func TestRunWithACancelledContextDoesNothing(t *testing.T) {
	b := newBench(t, "done").overSSH()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.EqualError(t, b.session.Run(ctx, b.request), "stopping before anything was done: context canceled (after a time-out, Packer hands every retry the same ended context: leave out max_retries or timeout)")
	assert.Empty(t, b.machine.Asked())
	assert.Equal(t, plan.Failure, b.kept().Result)
}

func TestALostConnectionStopsTheAgent(t *testing.T) {
	b := newBench(t, "wait").overSSH()
	over := make(chan error, 1)
	go func() { over <- b.session.Run(t.Context(), b.request) }()
	pid := b.pid()
	b.machine.Cut()
	require.EqualError(t, <-over, "the connection to the machine was lost before the agent had finished; what it had done is finished by the next run")
	gone(t, pid)
	b.untouched()
	assert.Len(t, b.machine.Asked(), 3)
	r := b.kept()
	assert.Equal(t, plan.Failure, r.Result)
	assert.NotEmpty(t, r.Machine.Arch)
	assert.NotEmpty(t, r.Machine.Distro)
}

// A machine that vanishes does not close its connection. The session ends when the
// machine is silent for too long.
func TestASilentMachineIsALostConnection(t *testing.T) {
	b := newBench(t, "wait").overSSH()
	b.session.Limits.Silence = time.Millisecond
	b.session.Limits.Heartbeat = 10 * time.Millisecond
	err := b.session.Run(t.Context(), b.request)
	require.EqualError(t, err, "the connection to the machine was lost: it has said nothing for 1 ms and is gone, or nothing reaches it any more; what the agent had done is finished by the next run")
	assert.Len(t, b.machine.Asked(), 2, "no cleanup may run on a lost machine")
	assert.Equal(t, plan.Failure, b.kept().Result)
}

// A provisioner uses the agent that the one before has kept, if its checksum is right.
// Each command of this machine finds the copy in its /run.
func TestAKeptAgentIsNotSentAgain(t *testing.T) {
	for name, c := range map[string]struct {
		change, want string
		sent         bool
	}{
		"the same":    {want: "The machine still has the agent " + version.String()},
		"another":     {change: "echo more >> /run/eksnode-agent/eksnode", want: "Sending the agent", sent: true},
		"a link":      {change: "ln -sf /etc/passwd /run/eksnode-agent/eksnode", want: "Sending the agent", sent: true},
		"no checksum": {change: "mount --bind /dev/null /usr/bin/sha256sum", want: "Sending the agent", sent: true},
	} {
		t.Run(name, func(t *testing.T) {
			packed, err := buildAgent()
			require.NoError(t, err)
			program := filepath.Join(t.TempDir(), "agent.gz")
			require.NoError(t, os.WriteFile(program, packed, 0o600))
			b := newBench(t, "look").overSSH().inNamespace("mount -t tmpfs tmp /run && mkdir -m 700 /run/eksnode-agent && gzip -dc " + program +
				" > /run/eksnode-agent/eksnode && " + cmp.Or(c.change, "true"))
			require.NoError(t, b.session.Run(t.Context(), b.request))
			assert.Contains(t, strings.Join(b.screen.lines(), "\n"), c.want)
			b.screen.rest(t, "  warning: umask 022, in /, folder gone: true, version "+version.String()+", command provision")
			assert.Equal(t, c.sent, b.machine.Taken() > int64(len(packed)))
			b.untouched()
		})
	}
}
