//go:build packer && linux

package main_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// buildPlugin builds the plugin as a release or development version. The plugin
// contains the test agent of package remote, whose behaviour source_url selects.
func buildPlugin(t *testing.T, version, prerelease string) string {
	const in = "github.com/eksnode/packer-plugin-eksnode/internal/version."
	linker := "-s -w -X " + in + "Version=" + version + " -X " + in + "VersionPrerelease=" + prerelease
	folder := t.TempDir()
	agent := filepath.Join(folder, "agent")
	build(t, "-ldflags", linker, "-o", agent, "./remote/testdata/agent")

	here, err := os.Getwd()
	require.NoError(t, err)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(here, "embedded", "agents", "eksnode-linux-"+runtime.GOARCH+".gz"): compress(t, agent),
	}})
	require.NoError(t, err)
	overlaid := filepath.Join(folder, "overlay.json")
	require.NoError(t, os.WriteFile(overlaid, overlay, 0o600))
	plugin := filepath.Join(folder, "packer-plugin-eksnode")
	build(t, "-overlay", overlaid, "-ldflags", linker, "-o", plugin, ".")
	return plugin
}

func build(t *testing.T, args ...string) {
	out, err := exec.Command("go", append([]string{"build", "-trimpath"}, args...)...).CombinedOutput()
	require.NoError(t, err, string(out))
}

func compress(t *testing.T, file string) string {
	program, err := os.ReadFile(file)
	require.NoError(t, err)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err = w.Write(program)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, os.WriteFile(file+".gz", packed.Bytes(), 0o600))
	return file + ".gz"
}

func TestDescribeListsTheProvisioners(t *testing.T) {
	for prerelease, want := range map[string]string{"": "1.2.3", "dev": "1.2.3-dev"} {
		out, err := exec.Command(buildPlugin(t, "1.2.3", prerelease), "describe").Output()
		require.NoError(t, err)
		var said struct {
			Version      string   `json:"version"`
			Provisioners []string `json:"provisioners"`
			API          string   `json:"api_version"`
		}
		require.NoError(t, json.Unmarshal(out, &said))
		assert.Equal(t, want, said.Version)
		assert.Equal(t, []string{"-packer-default-plugin-name-", "scrub"}, said.Provisioners)
		assert.Equal(t, "x5.0", said.API)
	}
}

// HashiCorp's plugin check passes. It takes the name of a file in its folder, not a
// path.
func TestPluginPassesPackerSDCCheck(t *testing.T) {
	where, err := exec.Command("go", "tool", "-n", "packer-sdc").Output()
	require.NoError(t, err)
	plugin := buildPlugin(t, "0.1.0", "dev")
	check := exec.Command(strings.TrimSpace(string(where)), "plugin-check", filepath.Base(plugin))
	check.Dir = filepath.Dir(plugin)
	out, err := check.CombinedOutput()
	require.NoError(t, err, string(out))
}
