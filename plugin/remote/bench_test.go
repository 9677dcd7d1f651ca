//go:build linux

package remote

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/sshtest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/agent"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // the SDK logs every connection
	os.Exit(m.Run())
}

var buildAgent = sync.OnceValues(func() ([]byte, error) {
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "agent")
	if out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", file, "./testdata/agent").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the test's agent: %w: %s", err, out)
	}
	program, err := os.ReadFile(file)
	return testkit.Gzip(program), err
})

// bench is a session with a machine.
type bench struct {
	t       *testing.T
	screen  *monitor
	machine *sshtest.Machine
	session *Session
	request agent.Request
	folder  string // the remote folder
	report  string
}

// newBench prepares a session. behaviour selects what testdata/agent does.
func newBench(t *testing.T, behaviour string) *bench {
	// t.TempDir does not work: other users cannot enter its parent.
	folder, err := os.MkdirTemp("", "eksnode-test-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(folder, 0o777))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	b := &bench{
		t:       t,
		screen:  &monitor{},
		folder:  folder,
		report:  filepath.Join(t.TempDir(), "made", "report.json"),
		request: agent.Request{Command: agent.Provision, Provision: &provisioner.Spec{SourceURL: "https://" + behaviour}},
	}
	b.session = &Session{
		Config: Config{Report: b.report, RemoteFolder: folder, SudoCommand: "env --"},
		Build:  "null.machine",
		Kept:   new(Kept),
		UI:     b.screen.ui(),
		Agent: func(arch string) ([]byte, error) {
			require.Equal(t, runtime.GOARCH, arch)
			return buildAgent()
		},
		Version: version.String(),
		Limits:  Limits{Probe: time.Minute, Arrival: time.Minute, Heartbeat: 10 * time.Millisecond, Silence: time.Minute, Ending: time.Minute, Cleaning: time.Minute},
		Now:     time.Now,
		Random:  rand.Reader,
	}
	return b
}

func (b *bench) overSSH() *bench {
	b.machine = sshtest.New(b.t)
	quiet := &packersdk.BasicUi{Writer: io.Discard}
	b.session.Comm = connectSSH(b.t, b.machine, quiet)
	return b
}

// inNamespace runs each command of the machine in a new mount namespace, after the
// command mount.
func (b *bench) inNamespace(mount string) *bench {
	b.machine.Shell = func(command string) *exec.Cmd {
		cmd := exec.Command("/bin/sh", "-c", mount+` && exec /bin/sh -c "$1"`, "sh", command)
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		return cmd
	}
	return b
}

func (b *bench) kept() plan.Report {
	data, err := os.ReadFile(b.report)
	require.NoError(b.t, err)
	var r plan.Report
	require.NoError(b.t, json.Unmarshal(data, &r))
	return r
}

// untouched waits until no file of the agent is left on the machine.
func (b *bench) untouched() {
	require.EventuallyWithT(b.t, func(c *assert.CollectT) {
		left, err := os.ReadDir(b.folder)
		require.NoError(c, err)
		require.Empty(c, left)
	}, 30*time.Second, 5*time.Millisecond)
}

// pid waits until the agent prints its process ID.
func (b *bench) pid() int {
	pid, err := strconv.Atoi(b.screen.rest(b.t, "  warning: pid "))
	require.NoError(b.t, err)
	return pid
}

// gone waits until a process of the machine has ended.
func gone(t *testing.T, pid int) {
	require.Eventually(t, func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH },
		30*time.Second, 5*time.Millisecond, "process "+strconv.Itoa(pid)+" is still running")
}
