//go:build packer && linux

package main_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/e2e/sshtest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// newWorkstation has the newest packer, or that of the environment variable PACKER.
func newWorkstation(t *testing.T) *workstation {
	program, err := tools.Packer(t.Context(), "", t.Output())
	require.NoError(t, err)
	return &workstation{t: t, packer: program, folder: t.TempDir()}
}

// withPlugin is newWorkstation with the plugin of a release.
func withPlugin(t *testing.T) *workstation {
	d := newWorkstation(t)
	d.install(buildPlugin(t, "0.1.0", ""))
	return d
}

// workstation is where a person works with packer.
type workstation struct {
	t      *testing.T
	packer string
	folder string // holds everything that packer reads and writes
}

// template writes the folder's only template.
func (d *workstation) template(blocks string) {
	content := `packer {
  required_plugins {
    eksnode = {
      source  = "github.com/eksnode/eksnode"
      version = ">= 0.1.0"
    }
  }
}
` + blocks
	require.NoError(d.t, os.WriteFile(filepath.Join(d.folder, "node.pkr.hcl"), []byte(content), 0o600))
}

// command returns a packer command with a separate home and plugin folder.
func (d *workstation) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(d.t.Context(), d.packer, args...)
	cmd.Dir = d.folder
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + d.folder, "TMPDIR=" + d.folder, "CHECKPOINT_DISABLE=1", "PACKER_NO_COLOR=1",
		"PACKER_CONFIG_DIR=" + d.folder, "PACKER_PLUGIN_PATH=" + filepath.Join(d.folder, "plugins"),
	}
	return cmd
}

// offline runs a packer command without any network, even loopback. It returns the
// output as one line, because packer wraps messages in boxes.
func (d *workstation) offline(args ...string) (said string, err error) {
	cmd := d.command(args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNET}
	out, err := cmd.CombinedOutput()
	return flat(string(out)), err
}

func flat(said string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(said)), " ")
}

// atTerminal gives a command a process group, as a terminal does, and a file for its
// output.
func (d *workstation) atTerminal(cmd *exec.Cmd) string {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.Create(filepath.Join(d.folder, "log"))
	require.NoError(d.t, err)
	d.t.Cleanup(func() { log.Close() })
	cmd.Stdout, cmd.Stderr = log, log
	return log.Name()
}

func (d *workstation) install(plugin string) {
	said, err := d.offline("plugins", "install", "--path", plugin, "github.com/eksnode/eksnode")
	require.NoError(d.t, err, said)
}

func TestInstallAndInitWorkOffline(t *testing.T) {
	release, dev := buildPlugin(t, "0.1.0", ""), buildPlugin(t, "0.1.0", "dev")
	d := newWorkstation(t)
	d.template(`source "null" "x" { communicator = "none" }
build {
  sources = ["null.x"]
  provisioner "eksnode" { kubernetes_version = "1.34.4" }
  provisioner "eksnode-scrub" {}
}`)
	said, err := d.offline("validate", ".")
	require.Error(t, err, "validate must fail without the plugin")
	assert.Contains(t, said, "github.com/eksnode/eksnode")

	d.install(dev)
	said, err = d.offline("validate", ".")
	require.NoError(t, err, said)

	d.install(release)
	said, err = d.offline("init", ".")
	require.NoError(t, err, said)
	said, err = d.offline("validate", ".")
	require.NoError(t, err, said)
	said, err = d.offline("plugins", "installed")
	require.NoError(t, err, said)
	assert.Contains(t, said, "packer-plugin-eksnode_v0.1.0_x5.0_linux_")
}

// Packer and the plugin find mistakes in the blocks of testdata/validate.yaml.
// TestValidateEveryField has the fields of the plugin.
func TestPackerValidate(t *testing.T) {
	var blocks map[string]struct {
		Block string
		Want  []string // parts of the error; none if the block is valid
	}
	require.NoError(t, yaml.Unmarshal([]byte(testkit.Content(t, "testdata/validate.yaml")), &blocks))
	d := withPlugin(t)
	for name, test := range blocks {
		t.Run(name, func(t *testing.T) {
			d.template(`data "null" "later" { input = "x" }
` + nullSource + `
build {
  sources = ["null.x"]
  ` + test.Block + `
}`)
			said, err := d.offline("validate", ".")
			if test.Want == nil {
				require.NoError(t, err, said)
				return
			}
			require.Error(t, err)
			for _, want := range test.Want {
				assert.Contains(t, said, want)
			}
		})
	}
}

// onMachine writes a template for a build on an SSH machine.
func (d *workstation) onMachine(m *sshtest.Machine, folder, fields string) {
	host, port := m.Address()
	d.template(`source "null" "x" {
  ssh_host     = "` + host + `"
  ssh_port     = ` + strconv.Itoa(port) + `
  ssh_username = "admin"
  ssh_password = "secret"
}
build {
  sources = ["null.x"]
  provisioner "eksnode" {
    kubernetes_version = "1.34.4"
    remote_folder      = "` + folder + `"
    report             = "report.json"
    ` + fields + `
  }
}`)
}

func (d *workstation) remote() string {
	folder := filepath.Join(d.folder, "remote")
	require.NoError(d.t, os.MkdirAll(folder, 0o755))
	return folder
}

// untouched checks that no file of the agent is left on the machine.
func (d *workstation) untouched() {
	assert.Empty(d.t, testkit.Names(d.t, d.remote()))
}

func (d *workstation) result() plan.Report {
	return testkit.JSON[plan.Report](d.t, testkit.Content(d.t, filepath.Join(d.folder, "report.json")))
}

func TestBuildPrintsPhasesAndWritesAReport(t *testing.T) {
	d := withPlugin(t)
	m := sshtest.New(t)
	d.onMachine(m, d.remote(), `source_url = "https://done"`)
	out := testkit.Output(t, d.command("build", "."))
	said := flat(out)
	assert.Contains(t, said, "packages: 1 action, 1.4 s")
	assert.Contains(t, said, "clean: 2 steps, 1 changed, 24 files (69.0 MB) removed, 1 finding, 35 ms")
	assert.NotContains(t, said, "sysctls", "unchanged steps must not be printed")
	assert.Contains(t, said, "provision ok: 3 steps, 2 changed, 3 actions")
	assert.NotContains(t, out, "\x1b", "the plugin must not print colours")
	assert.Equal(t, plan.OK, d.result().Result)
	assert.Len(t, m.Asked(), 2)
	d.untouched()
}

func TestFailedBuildsNameTheCause(t *testing.T) {
	for name, test := range map[string]struct{ folder, fields, want string }{
		"an agent that fails":         {"", `source_url = "https://fail"`, "kubelet: failed after 12 ms: fetch kubelet: checksum mismatch"},
		"an agent without end marker": {"", `source_url = "https://exit:0"`, "without its end marker"},
		"a time-out":                  {"", "source_url = \"https://wait\"\ntimeout = \"1s\"", "the agent has stopped; the next run finishes what is left"},
		"a missing folder":            {"/no/such", `source_url = "https://done"`, "the folder /no/such does not exist on the machine"},
	} {
		t.Run(name, func(t *testing.T) {
			d := withPlugin(t)
			m := sshtest.New(t)
			folder := d.remote()
			if test.folder != "" {
				folder = test.folder
			}
			d.onMachine(m, folder, test.fields)
			out, err := d.command("build", ".").CombinedOutput()
			require.Error(t, err, string(out))
			assert.Contains(t, flat(string(out)), test.want)
			build, _, _ := strings.Cut(string(out), "Builds finished")
			assert.LessOrEqual(t, strings.Count(build, "checksum mismatch"), 1, "the failure must be printed once")
			assert.LessOrEqual(t, strings.Count(build, "oh no"), 1, "the failure must be printed once")
			assert.Equal(t, plan.Failure, d.result().Result)
			assert.LessOrEqual(t, len(m.Asked()), 3)
			d.untouched()
		})
	}
}

// On Ctrl-C, Packer kills its plugins at once. The agent stops because the
// connection ends.
func TestAnInterruptedBuildStopsTheAgent(t *testing.T) {
	d := withPlugin(t)
	d.onMachine(sshtest.New(t), d.remote(), `source_url = "https://wait"`)
	cmd := d.command("build", ".")
	log := d.atTerminal(cmd)
	require.NoError(t, os.WriteFile(filepath.Join(d.folder, "report.json"), []byte(`{"result":"ok"}`), 0o600))
	require.NoError(t, cmd.Start())
	pid := 0
	require.Eventually(t, func() bool {
		said := testkit.Content(t, log)
		_, after, found := strings.Cut(flat(said), "warning: pid ")
		if word, _, whole := strings.Cut(after+" ", " "); found && whole {
			var err error
			pid, err = strconv.Atoi(word)
			return err == nil
		}
		return false
	}, time.Minute, 10*time.Millisecond)

	require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)) // a terminal signals the whole process group
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	require.Eventually(t, func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) },
		time.Minute, 10*time.Millisecond, "the agent is still running")
	assert.Contains(t, []plan.Result{plan.Unfinished, plan.Failure}, d.result().Result)
	d.untouched()
}

// Two builds of one run, and two runs, must not share a report file.
func TestTwoBuildsCannotShareAReport(t *testing.T) {
	d := withPlugin(t)
	d.onMachine(sshtest.New(t), d.remote(), `source_url = "https://done"`)
	file := filepath.Join(d.folder, "node.pkr.hcl")
	text := testkit.Content(t, file)
	two := strings.Replace(text, `sources = ["null.x"]`,
		"sources = [\"null.x\"]\n  source \"null.x\" {\n    name = \"y\"\n  }", 1)
	require.NoError(t, os.WriteFile(file, []byte(two), 0o600))
	for _, parallel := range []string{"0", "1"} {
		out, err := d.command("build", "-parallel-builds="+parallel, ".").CombinedOutput()
		require.Error(t, err, string(out))
		said := flat(string(out))
		// If two builds begin together, the first may not have written its name yet.
		assert.Regexp(t, `report: report\.json keeps the report of (the provision of the build [xy]|another run), which has not ended`, said)
		assert.Contains(t, said, "give each provisioner and each build a file of its own, such as report-${source.name}.json")
		assert.Contains(t, said, "provision ok: 3 steps", "the other build must complete")
		assert.Equal(t, plan.OK, d.result().Result)
	}
	own := strings.Replace(two, `"report.json"`, `"report-${source.name}.json"`, 1)
	require.NoError(t, os.WriteFile(file, []byte(own), 0o600))
	testkit.Output(t, d.command("build", "."))
	for _, name := range []string{"report-x.json", "report-y.json"} {
		assert.FileExists(t, filepath.Join(d.folder, name))
	}
}
