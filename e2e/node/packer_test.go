//go:build e2e

package node_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

type run struct {
	cmd   *exec.Cmd
	args  string
	begin time.Time
	done  chan struct{}
	code  int
	took  time.Duration
	out   *testkit.Said
	// report is the path of the template's report.
	report string
}

// packer starts packer, in a process group of its own, as a shell at a terminal
// would. A failing test logs its output.
func (b *bench) packer(t *testing.T, args ...string) *run {
	t.Helper()
	program, err := tools.Packer(b.Ctx, "", t.Output())
	require.NoError(t, err)
	r := &run{args: "packer " + args[0], begin: time.Now(), done: make(chan struct{}), out: &testkit.Said{}}
	r.cmd = b.Command(context.WithoutCancel(b.Ctx), program, args...)
	r.cmd.Dir = b.folder
	r.cmd.Env = append(os.Environ(), "PACKER_PLUGIN_PATH="+b.plugins,
		"PACKER_CONFIG_DIR="+filepath.Join(b.folder, "config"), "CHECKPOINT_DISABLE=1")
	r.cmd.Stdout, r.cmd.Stderr = r.out, r.out
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, r.cmd.Start())
	go func() {
		defer close(r.done)
		r.cmd.Wait() // run.wait checks the exit code
		r.code, r.took = r.cmd.ProcessState.ExitCode(), time.Since(r.begin)
	}()
	t.Cleanup(func() {
		r.signal(t, syscall.SIGKILL)
		<-r.done
		if t.Failed() {
			t.Logf("%s printed:\n%s", r.args, r.out)
		}
	})
	return r
}

// signal sends a signal to packer and its plugins, as Ctrl-C at a terminal
// does. It does nothing when packer has ended.
func (r *run) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	select {
	case <-r.done:
		return
	default:
	}
	if err := syscall.Kill(-r.cmd.Process.Pid, signal); err != syscall.ESRCH {
		assert.NoError(t, err)
	}
}

// wait waits until packer has ended.
func (r *run) wait(t *testing.T) {
	t.Helper()
	select {
	case <-r.done:
	case <-time.After(patience):
		require.Fail(t, "packer did not end", "%s", r.out)
	}
}

func (r *run) succeeds(t *testing.T) *run {
	t.Helper()
	r.wait(t)
	require.Zero(t, r.code, "%s", r.out)
	t.Logf("%s: exit 0 after %s", r.args, r.took.Round(10*time.Millisecond))
	return r
}

// fails requires that packer fails, and that its output has all these words.
func (r *run) fails(t *testing.T, words ...string) *run {
	t.Helper()
	r.wait(t)
	require.Equal(t, 1, r.code, "%s", r.out)
	said := r.said()
	t.Logf("%s: exit 1 after %s: %s", r.args, r.took.Round(10*time.Millisecond), said[max(0, len(said)-500):])
	for _, word := range words {
		require.Contains(t, said, word, "%s", r.out)
	}
	return r
}

// notText matches what Packer and the plugin put before a message.
var notText = regexp.MustCompile(`(?m)^ *==> \S+: |failed after [^:]+: `)

// said returns packer's output on one line, with the messages alone.
func (r *run) said() string {
	return strings.Join(strings.Fields(notText.ReplaceAllString(r.out.String(), "")), " ")
}

func (r *run) outcome(t *testing.T) (plan.Report, map[string]plan.Status) {
	t.Helper()
	report := testkit.JSON[plan.Report](t, testkit.Content(t, r.report))
	items := map[string]plan.Status{}
	for _, o := range report.Outcomes {
		items[o.Item] = o.Status
	}
	return report, items
}

// account holds packer's login settings.
type account struct {
	User string
	Port int
	None bool // communicator = "none"
}

// template writes a template with one provisioner. fields are HCL, one per
// line.
func (b *bench) template(t *testing.T, n *node, as account, kind, fields string) (template, report string) {
	t.Helper()
	folder, err := os.MkdirTemp(b.folder, "template-")
	require.NoError(t, err)
	address, port, user := n.SSH()
	user, port = cmp.Or(as.User, user), cmp.Or(as.Port, port)
	source := fmt.Sprintf("ssh_host = %q\nssh_port = %d\nssh_username = %q\nssh_private_key_file = %q\n", address, port, user, b.keyFile())
	if as.None {
		source = "communicator = \"none\"\n"
	}
	report = filepath.Join(folder, "report.json")
	text := fmt.Sprintf("source \"null\" \"machine\" {\n%s}\nbuild {\nsources = [\"source.null.machine\"]\nprovisioner %q {\nreport = %q\n%s\n}\n}\n",
		source, kind, report, fields)
	template = filepath.Join(folder, "node.pkr.hcl")
	require.NoError(t, os.WriteFile(template, []byte(text), 0o644))
	return template, report
}

// build starts a build of one provisioner on a machine.
func (b *bench) build(t *testing.T, n *node, as account, kind, fields string) *run {
	t.Helper()
	template, report := b.template(t, n, as, kind, fields)
	r := b.packer(t, "build", "-color=false", template)
	r.report = report
	return r
}

// provision starts the provisioner eksnode with a mirror; more are additional
// fields.
func (b *bench) provision(t *testing.T, n *node, source string, more ...string) *run {
	t.Helper()
	return b.provisionAs(t, n, account{}, source, more...)
}

func (b *bench) provisionAs(t *testing.T, n *node, as account, source string, more ...string) *run {
	t.Helper()
	fields := fmt.Sprintf("source_url = %q\nallow_http = %t\n", source, strings.HasPrefix(source, "http://"))
	if !strings.Contains(strings.Join(more, "\n"), "kubernetes_version") {
		fields += fmt.Sprintf("kubernetes_version = %q\n", kubelet)
	}
	return b.build(t, n, as, "eksnode", fields+strings.Join(more, "\n"))
}
