//go:build e2e

package ebs_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// repository is the project's folder. example is the folder of the template.
const (
	repository = "../.."
	example    = repository + "/examples/amazon-ebs"
)

// programs are the programs that a user has installed.
type programs struct {
	packer, amazon, plugin, eksnode string
}

// build gets the tools, and builds the plugin and the command from the working
// tree, as a release does.
func build(t *testing.T) programs {
	t.Helper()
	var all programs
	var err error
	all.packer, err = tools.Packer(t.Context(), "", t.Output())
	require.NoError(t, err)
	all.amazon, err = tools.PackerAmazon(t.Context(), "", t.Output())
	require.NoError(t, err)

	folder := t.TempDir()
	all.eksnode, all.plugin = filepath.Join(folder, "eksnode"), filepath.Join(folder, "packer-plugin-eksnode")
	linker := "-s -w -X github.com/eksnode/packer-plugin-eksnode/internal/version.VersionPrerelease="
	agent := filepath.Join(folder, "agent")
	goBuild(t, "-ldflags", linker, "-o", all.eksnode, "./cmd/eksnode")
	goBuild(t, "-tags", "agent", "-ldflags", linker, "-o", agent, "./cmd/eksnode")
	top, err := filepath.Abs(repository)
	require.NoError(t, err)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(top, "plugin/embedded/agents/eksnode-linux-amd64.gz"): pack(t, agent),
	}})
	require.NoError(t, err)
	overlaid := filepath.Join(folder, "overlay.json")
	require.NoError(t, os.WriteFile(overlaid, overlay, 0o600))
	goBuild(t, "-overlay", overlaid, "-ldflags", linker, "-o", all.plugin, "./plugin")
	return all
}

func goBuild(t *testing.T, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", append([]string{"build", "-trimpath"}, args...)...)
	command.Dir = repository
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := command.CombinedOutput()
	require.NoError(t, err, string(out))
}

// pack compresses a file; the archive is next to it.
func pack(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, err = writer.Write(content)
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	require.NoError(t, os.WriteFile(file+".gz", packed.Bytes(), 0o600))
	return file + ".gz"
}

// workstation is a user's workstation: a home folder of its own, with AWS's
// settings in the environment, where any AWS client reads them. The example
// itself does not know that there is no AWS. AWS_ENDPOINT_URL redirects every
// call, also the calls that the builder's custom_endpoint_ec2 would not
// redirect.
type workstation struct {
	*cloud
	programs
	home     string
	template string // the example's folder
}

func newWorkstation(t *testing.T, c *cloud, all programs) *workstation {
	t.Helper()
	template, err := filepath.Abs(example)
	require.NoError(t, err)
	d := &workstation{cloud: c, programs: all, home: t.TempDir(), template: template}
	for source, plugin := range map[string]string{"github.com/hashicorp/amazon": d.amazon, "github.com/eksnode/eksnode": d.plugin} {
		if plugin == "" {
			continue
		}
		out, err := d.offer("plugins", "install", "--path", plugin, source)
		require.NoError(t, err, out)
	}
	return d
}

// mustRun runs a packer command on the example that must succeed.
func (d *workstation) mustRun(what string, args ...string) {
	d.t.Helper()
	out, err := d.run(what, args...)
	require.NoError(d.t, err, out)
}

// run runs a packer command on the example and returns its output.
func (d *workstation) run(what string, args ...string) (string, error) {
	return d.offer(append(append([]string{what}, args...), d.template)...)
}

// offer runs packer and returns its output.
func (d *workstation) offer(args ...string) (string, error) {
	var out bytes.Buffer
	command := d.command(args...)
	command.Stdout = io.MultiWriter(&out, d.t.Output())
	command.Stderr = command.Stdout
	err := command.Run()
	return out.String(), err
}

// command prepares packer in the lab's network.
func (d *workstation) command(args ...string) *exec.Cmd {
	command := d.lab.Command(d.ctx, d.packer, args...)
	command.Dir = d.home
	command.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + d.home, "TMPDIR=" + d.home, "CHECKPOINT_DISABLE=1", "PACKER_NO_COLOR=1",
		"PACKER_CONFIG_DIR=" + filepath.Join(d.home, "config"), "PACKER_PLUGIN_PATH=" + filepath.Join(d.home, "plugins"),
		"AWS_ENDPOINT_URL=" + d.url, "AWS_ACCESS_KEY_ID=" + aws.AccessKey, "AWS_SECRET_ACCESS_KEY=secret",
		"AWS_EC2_METADATA_DISABLED=true", "AWS_POLL_DELAY_SECONDS=1",
	}
	return command
}

// variables are the test's values of the example's variables: the mirror, and no public
// addresses.
func (d *workstation) variables(more ...string) []string {
	return append([]string{
		"-var", "source_url=" + d.mirror.URL(), "-var", "allow_http=true",
		"-var", "ssh_interface=private_ip",
		"-var", "reports=" + d.reports(),
	}, more...)
}

func (d *workstation) reports() string { return filepath.Join(d.home, "reports") }
