//go:build linux

package remote

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/packer-plugin-sdk/communicator"
	"github.com/hashicorp/packer-plugin-sdk/multistep"
	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"github.com/hashicorp/packer-plugin-sdk/rpc"
	"github.com/hashicorp/packer-plugin-sdk/template/interpolate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/sshtest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

func TestFailedAgentsNameTheCause(t *testing.T) {
	for behaviour, want := range map[string]string{
		"fail":                     "provision failed: kubelet: the error is above",
		"exit:0":                   "the agent's session ended with status 0 but without its end marker: the connection to the machine was lost (its output is above)",
		"exit:3":                   "the agent exited with status 3 before it had finished (its output is above)",
		"mute:0":                   "the agent's session ended with status 0 but without its end marker: the connection to the machine was lost",
		"mute:4":                   "the agent did not start: exit status 4",
		"mute:127":                 "running the agent: a program was not found",
		"kill":                     "the agent was killed by signal 9 before it had finished (9 is most often the kernel, out of memory) (its output is above)",
		"lie:5":                    `the agent finished with the result "ok", which exits with 0, but exited with 5`,
		"old":                      `the agent is "0.0.1" but the plugin is version ` + version.String() + `; build both together with ` + "`make build`",
		`raw:{"event":"x"}`:        `reading the agent's events: an event of the unknown kind "x"`,
		`raw:{"event":"x","y":1}`:  `reading the agent's events: this line is not an event: "{\"event\":\"x\",\"y\":1}"`,
		`raw:{"event":"end"}`:      "reading the agent's events: an end without an outcome",
		`raw:{"event":"finished"}`: "reading the agent's events: a finish without a report",
	} {
		t.Run(behaviour, func(t *testing.T) {
			b := newBench(t, behaviour).overSSH()
			b.session.Limits.Heartbeat = time.Hour // the end must be noticed without a heartbeat
			require.EqualError(t, b.session.Run(t.Context(), b.request), want)
			r := b.kept()
			assert.Equal(t, plan.Failure, r.Result)
			whole := map[string]string{
				"fail":   "kubelet: fetch kubelet: checksum mismatch",
				"exit:3": "the agent exited with status 3 before it had finished: fatal error: oh no",
			}
			if text, ok := whole[behaviour]; ok {
				assert.Equal(t, text, r.Error, "the report must have the whole error")
			}
			once(t, b.screen.lines(), want, "checksum mismatch", "oh no")
			assert.LessOrEqual(t, len(b.machine.Asked()), 3)
			b.untouched()
		})
	}
}

// once checks that each text is at most once in the lines and the error of a
// session.
func once(t *testing.T, lines []string, err string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		assert.LessOrEqual(t, strings.Count(strings.Join(append(lines, err), "\n"), text), 1, "%q is printed twice", text)
	}
}

// If the agent dies before its report, the report has the outcomes up to then.
func TestReportOfAKilledAgentHasItsOutcomes(t *testing.T) {
	b := newBench(t, "exit:3").overSSH()
	require.Error(t, b.session.Run(t.Context(), b.request))
	r := b.kept()
	require.Len(t, r.Outcomes, 1)
	assert.Equal(t, "packages", r.Outcomes[0].Item)
	assert.Equal(t, "provision", r.Command)
	assert.Equal(t, version.String(), r.Tool)
	assert.Equal(t, plan.Schema, r.Schema)
	assert.Equal(t, 1, r.Totals.Changed)
}

func TestRemoteFoldersThatCannotHoldTheAgent(t *testing.T) {
	for name, test := range map[string]struct {
		mount string // FOLDER means the remote folder, HOME the folder that the error proposes
		want  string
	}{
		"noexec": {
			"mount -t tmpfs -o noexec,mode=1777 none FOLDER",
			"running the agent: programs in FOLDER on the machine may not be run, most often because it is mounted noexec; set remote_folder to another folder, such as HOME",
		},
		"full": {
			"mount -t tmpfs -o size=64k,mode=1777 none FOLDER",
			"unpacking the agent: no space left in FOLDER on the machine; make room or set remote_folder to another folder, such as HOME (its output is above)",
		},
		"no inodes": {
			"mount -t tmpfs -o nr_inodes=1,mode=1777 none FOLDER",
			"unpacking the agent: no space left in FOLDER on the machine; make room or set remote_folder to another folder, such as HOME (its output is above)",
		},
		"read-only": {
			"mount -t tmpfs -o ro none FOLDER",
			"looking at the machine: the folder FOLDER on the machine is not writable for the user root (or lies on a read-only file system); set remote_folder to one that is, such as HOME",
		},
		"missing": {
			"rmdir FOLDER",
			"looking at the machine: the folder FOLDER does not exist on the machine; set remote_folder to one that does, such as HOME",
		},
		"taken": {
			"mkdir -p FOLDER/eksnode-0000000000000000/mine",
			"making a folder in FOLDER on the machine (its output is above); set remote_folder to another folder, such as HOME",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "done").overSSH()
			home, err := os.Getwd()
			require.NoError(t, err)
			here := strings.NewReplacer("FOLDER", b.folder, "HOME", home)
			b.inNamespace(here.Replace(test.mount))
			b.session.Random = bytes.NewReader(make([]byte, 8))
			require.EqualError(t, b.session.Run(t.Context(), b.request), here.Replace(test.want))
			if name == "taken" { // another program's folder must stay
				require.DirExists(t, filepath.Join(b.folder, "eksnode-0000000000000000", "mine"))
			} else if name != "missing" {
				b.untouched()
			}
		})
	}
}

func TestAgentsThatCannotStart(t *testing.T) {
	for name, test := range map[string]struct {
		program []byte
		want    string // regular expression
	}{
		"not compressed":    {[]byte("hello"), `^unpacking the agent in \S+ on the machine \(its output is above\)$`},
		"cut":               {testkit.Gzip("hello")[:15], `^unpacking the agent in \S+ on the machine \(its output is above\)$`},
		"another machine's": {testkit.Gzip("\x7fELF\x02\x01\x01"), `^running the agent: the machine does not run linux/(amd64|arm64) programs although it says so \(its output is above\)$`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "done").overSSH()
			b.session.Agent = func(string) ([]byte, error) { return test.program, nil }
			err := b.session.Run(t.Context(), b.request)
			require.Error(t, err)
			assert.Regexp(t, test.want, err.Error())
			b.untouched()
		})
	}
}

func TestAPluginWithoutItsAgentFails(t *testing.T) {
	b := newBench(t, "done").overSSH()
	b.session.Agent = func(string) ([]byte, error) { return nil, errors.New("not built") }
	require.EqualError(t, b.session.Run(t.Context(), b.request), "choosing the agent: not built")
	assert.Equal(t, "choosing the agent: not built", b.kept().Error)
	assert.Len(t, b.machine.Asked(), 1)
}

// sudo may allow the probe's command and refuse the agent.
func TestSudoThatRefusesTheAgent(t *testing.T) {
	b := newBench(t, "done").overSSH()
	b.session.Config.SudoCommand = "refuse"
	b.asUser(map[string]string{
		"refuse": `case $1 in env) exit 0;; esac; echo "sudo: a password is required" >&2; exit 1`,
	})
	require.EqualError(t, b.session.Run(t.Context(), b.request),
		"running the agent with `refuse` (its output is above); allow it in sudoers(5) with NOPASSWD, connect as root, or set sudo_command")
	b.untouched()
}

// If sudo cannot execute a program, a shell reads the program as a script.
func TestAgentOfAnotherArchitectureUnderSudo(t *testing.T) {
	b := newBench(t, "done").overSSH()
	b.session.Config.SudoCommand = "read-it"
	b.asUser(map[string]string{
		"read-it": `case $1 in env) exit 0;; esac; printf '%s: 1: \177ELF\002\001: not found\n' "$1" >&2; exit 2`,
	})
	err := b.session.Run(t.Context(), b.request)
	require.Error(t, err)
	assert.Regexp(t, `^running the agent: the machine does not run linux/(amd64|arm64) programs although it says so$`, err.Error())
	assert.NotContains(t, strings.Join(b.screen.lines(), "\n"), "\x7f", "control characters must not be printed")
}

func TestAnUnwritableReportStopsBeforeAnyCommand(t *testing.T) {
	b := newBench(t, "done").overSSH()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	b.session.Config.Report = filepath.Join(file, "report.json")
	err := b.session.Run(t.Context(), b.request)
	require.EqualError(t, err, "report: mkdir "+file+": not a directory; nothing was done on the machine")
	assert.Empty(t, b.machine.Asked(), "no command may run on the machine")
}

// connect creates the communicator that a builder would create, and passes it to
// the plugin through RPC, as Packer does.
func connect(t *testing.T, c communicator.Config, ui packersdk.Ui) packersdk.Communicator {
	require.Empty(t, c.Prepare(&interpolate.Context{}))
	state := new(multistep.BasicStateBag)
	state.Put("ui", ui)
	step := &communicator.StepConnect{
		Config:    &c,
		Host:      func(multistep.StateBag) (string, error) { return c.SSHHost, nil },
		SSHConfig: c.SSHConfigFunc(),
	}
	action := step.Run(t.Context(), state)
	require.Equal(t, multistep.ActionContinue, action, "%v", state.Get("error"))
	return throughPacker(t, state.Get("communicator").(packersdk.Communicator))
}

func throughPacker(t *testing.T, comm packersdk.Communicator) packersdk.Communicator {
	core, plugin := net.Pipe()
	server, err := rpc.NewServer(core)
	require.NoError(t, err)
	require.NoError(t, server.RegisterCommunicator(comm))
	go server.Serve()
	client, err := rpc.NewClient(plugin)
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return client.Communicator()
}

func connectSSH(t *testing.T, m *sshtest.Machine, ui packersdk.Ui) packersdk.Communicator {
	c := communicator.Config{Type: "ssh"}
	c.SSHHost, c.SSHPort = m.Address()
	c.SSHUsername, c.SSHPassword = "admin", "secret"
	return connect(t, c, ui)
}
