//go:build packer && linux

package checks

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
)

// packer itself, with the plugin amazon, accepts every template in a page without any
// network. A template that has only a build block uses the source of docs/build.md, as its
// reader would. The namespace without a network needs
// root.
func TestPackerAcceptsTemplatesOfPages(t *testing.T) {
	workstation := newWorkstation(t)
	source, _, found := strings.Cut(onAnInstance(t), "\nbuild {")
	require.True(t, found, "the template has a build")
	count := 0
	for _, b := range blocks(t, "hcl") {
		if !strings.Contains("\n"+b.text, "\nbuild {") {
			continue
		}
		count++
		folder := t.TempDir()
		write(t, filepath.Join(folder, "page.pkr.hcl"), b.text)
		if !strings.Contains(b.text, "\nsource ") {
			write(t, filepath.Join(folder, "source.pkr.hcl"), source)
		}
		workstation.offline(t, folder, "init", ".")
		workstation.offline(t, folder, "validate", ".")
	}
	require.NotZero(t, count)
}

// onAnInstance returns the whole template of docs/build.md.
func onAnInstance(t *testing.T) string {
	t.Helper()
	for _, b := range blocks(t, "hcl") {
		if b.page == "docs/build.md" && strings.HasPrefix(b.text, "packer {") && strings.Contains(b.text, "\nbuild {") {
			return b.text
		}
	}
	require.Fail(t, "docs/build.md has no whole template")
	return ""
}

type workstation struct{ packer, home string }

// newWorkstation makes a workstation with this plugin and amazon.
func newWorkstation(t *testing.T) workstation {
	t.Helper()
	packer, err := tools.Packer(t.Context(), "", t.Output())
	require.NoError(t, err)
	amazon, err := tools.Build(t.Context(), tools.NamePackerAmazon, "", runtime.GOARCH, t.Output())
	require.NoError(t, err)
	home := t.TempDir()
	plugin := filepath.Join(home, "packer-plugin-eksnode")
	run(t, "go", "build", "-o", plugin, "-ldflags", "-X "+module+"/internal/version.Version="+version.Version+" -X "+module+"/internal/version.VersionPrerelease=", "./plugin")
	w := workstation{packer: packer, home: home}
	w.offline(t, home, "plugins", "install", "--path", plugin, "github.com/eksnode/eksnode")
	w.offline(t, home, "plugins", "install", "--path", amazon, "github.com/hashicorp/amazon")
	return w
}

// offline runs a packer command without a network and without other plugins.
func (d workstation) offline(t *testing.T, folder string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), d.packer, args...)
	cmd.Dir = folder
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + d.home, "TMPDIR=" + d.home, "CHECKPOINT_DISABLE=1", "PACKER_NO_COLOR=1",
		"PACKER_CONFIG_DIR=" + d.home, "PACKER_PLUGIN_PATH=" + filepath.Join(d.home, "plugins"),
		"AWS_ACCESS_KEY_ID=none", "AWS_SECRET_ACCESS_KEY=none",
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNET}
	testkit.Output(t, cmd)
}
