//go:build packer && linux

package main_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/sshtest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// packer reads the cluster and base AMI from AWS doubles through the plugin's data
// sources.
func TestDataSourcesInABuild(t *testing.T) {
	d := withPlugin(t)
	url := aws.Sample(t).Serve()
	d.template(testkit.Content(t, "testdata/data-sources.hcl"))
	build := func() (string, error) {
		cmd := d.command("build", ".")
		cmd.Env = append(cmd.Env, "AWS_ENDPOINT_URL="+url, "AWS_REGION="+aws.Region, "AWS_ACCESS_KEY_ID="+aws.AccessKey,
			"AWS_SECRET_ACCESS_KEY=x", "AWS_EC2_METADATA_DISABLED=true")
		said, err := cmd.CombinedOutput()
		return flat(string(said)), err
	}
	said, err := d.offline("validate", ".")
	require.NoError(t, err, said)
	said, err = build()
	require.NoError(t, err, said)
	assert.Contains(t, said, "kubelet 1.34.4 on ami-22222222 in subnet-1")
}

// later returns an HCL expression of the value's type that is unknown at validate,
// wholly or in parts.
func later(value any, inParts bool) string {
	const text = "data.null.later.output"
	switch value := value.(type) {
	case bool:
		return text + ` == "yes"`
	case int:
		return "length(" + text + ")"
	case []any:
		if inParts {
			return "[" + text + "]"
		}
		return `split(",", ` + text + ")"
	case fields:
		if !inParts {
			return "jsondecode(" + text + ")"
		}
		parts := show.Each(slices.Sorted(maps.Keys(value)),
			func(key string) string { return fmt.Sprintf("%q = %s", key, text) })
		return "{ " + strings.Join(parts, ", ") + " }"
	default:
		if inParts {
			return `"/opt/${build.User}"`
		}
		return text
	}
}

// packer validates every field with known, unknown and partly unknown values.
func TestValidateEveryField(t *testing.T) {
	all := everyField(t)
	d := withPlugin(t)
	blocks := "data \"null\" \"later\" { input = \"x\" }\nsource \"null\" \"x\" { communicator = \"none\" }\n" +
		"build {\n  sources = [\"null.x\"]\n"
	add := func(name string, expression func(any) string) {
		blocks += fmt.Sprintf("  %s %q {\n", components()[name].kind, name)
		for _, field := range slices.Sorted(maps.Keys(all[name])) {
			blocks += fmt.Sprintf("    %s = %s\n", field, expression(all[name][field]))
		}
		blocks += "  }\n"
	}
	// Provisioners come first.
	for _, name := range []string{"eksnode", "eksnode-scrub", "eksnode-ami"} {
		add(name, func(value any) string {
			text, err := json.Marshal(value) // JSON is valid HCL
			require.NoError(t, err)
			return string(text)
		})
		add(name, func(value any) string { return later(value, false) })
		add(name, func(value any) string { return later(value, true) })
	}
	d.template(blocks + "}\n")
	said, err := d.offline("validate", ".")
	require.NoError(t, err, said)
	for _, folder := range []string{"reports", "cache"} {
		assert.NoDirExists(t, filepath.Join(d.folder, folder), "validating must not make folders")
	}
}

// The field verbose, and PACKER_LOG=1, print every step and action.
func TestVerboseBuildPrintsEveryAction(t *testing.T) {
	for name, test := range map[string]struct{ field, log string }{"verbose": {"verbose = true", "0"}, "PACKER_LOG": {"", "1"}} {
		t.Run(name, func(t *testing.T) {
			d := withPlugin(t)
			d.onMachine(sshtest.New(t), d.remote(), "source_url = \"https://done\"\n"+test.field)
			cmd := d.command("build", ".")
			cmd.Env = append(cmd.Env, "PACKER_LOG="+test.log)
			out := testkit.Output(t, cmd)
			said := flat(out)
			assert.Contains(t, said, "Phase: clean")
			assert.Contains(t, said, "sysctls unchanged 0 ms")
			assert.Contains(t, said, "install containerd (runs containers)")
		})
	}
}

// plugins is the folder of the plugins that this run of the tests has built: building
// one takes seconds. built has their paths by version.
var (
	plugins string
	built   = map[string]string{}
)

func TestMain(m *testing.M) {
	var err error
	if plugins, err = os.MkdirTemp("", "eksnode-plugins-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(plugins)
	os.Exit(code)
}

// buildPlugin builds the plugin as a release or development version. The plugin
// contains the test agent of package remote, whose behaviour source_url selects.
func buildPlugin(t *testing.T, version, prerelease string) string {
	if plugin := built[version+prerelease]; plugin != "" {
		return plugin
	}
	const in = "github.com/eksnode/packer-plugin-eksnode/internal/version."
	linker := "-s -w -X " + in + "Version=" + version + " -X " + in + "VersionPrerelease=" + prerelease
	folder := filepath.Join(plugins, version+prerelease)
	require.NoError(t, os.Mkdir(folder, 0o755))
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
	built[version+prerelease] = plugin
	return plugin
}

func build(t *testing.T, args ...string) {
	testkit.Run(t, "go", append([]string{"build"}, args...)...)
}

func compress(t *testing.T, file string) string {
	require.NoError(t, os.WriteFile(file+".gz", testkit.Gzip(testkit.Content(t, file)), 0o600))
	return file + ".gz"
}

func TestDescribeListsTheComponents(t *testing.T) {
	for prerelease, want := range map[string]string{"": "1.2.3", "dev": "1.2.3-dev"} {
		out, err := exec.Command(buildPlugin(t, "1.2.3", prerelease), "describe").Output()
		require.NoError(t, err)
		var said struct {
			Version      string   `json:"version"`
			Builders     []string `json:"builders"`
			Provisioners []string `json:"provisioners"`
			API          string   `json:"api_version"`
		}
		require.NoError(t, json.Unmarshal(out, &said))
		assert.Equal(t, want, said.Version)
		assert.Equal(t, []string{"disk"}, said.Builders)
		assert.Equal(t, []string{"-packer-default-plugin-name-", "audit", "scrub"}, said.Provisioners)
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
	testkit.Output(t, check)
}
