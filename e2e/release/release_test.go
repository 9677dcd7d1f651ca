//go:build release

package release

import (
	"debug/buildinfo"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

var (
	packerVersion = flag.String("packer", "", "version of the packer that installs the release")
	only          = flag.String("systems", "", "systems to build for, such as linux_amd64,windows_amd64; all when empty")
)

// number is another version than that of the sources: the linker silently ignores a
// flag for a variable that does not exist.
const (
	number = "9.8.7"
	plugin = "packer-plugin-eksnode_v" + number
	module = "github.com/eksnode/packer-plugin-eksnode"
)

// TestRelease builds a release twice, in two folders, with the goreleaser of the
// release workflow.
func TestRelease(t *testing.T) {
	checkout := tagged(t)
	gpg := newKey(t)
	elsewhere := filepath.Join(t.TempDir(), "another", "folder")
	require.NoError(t, os.CopyFS(elsewhere, os.DirFS(checkout)))
	dist := build(t, checkout, gpg)
	again := build(t, elsewhere, gpg)

	t.Run("files", func(t *testing.T) { assert.Equal(t, files(), uploads(t, dist)) })
	t.Run("same bytes", func(t *testing.T) {
		for _, name := range files() {
			if filepath.Ext(name) != ".sig" { // signatures contain the time
				one, other := filepath.Join(dist, name), filepath.Join(again, name)
				assert.Equal(t, testkit.Sum(t, one), testkit.Sum(t, other), name)
			}
		}
	})
	t.Run("checksums", func(t *testing.T) { checksums(t, dist, gpg) })
	t.Run("programs", func(t *testing.T) { programs(t, checkout, dist) })
	t.Run("versions", func(t *testing.T) { versions(t, dist) })
	t.Run("packages", func(t *testing.T) { packages(t, dist) })
	t.Run("packer", func(t *testing.T) {
		packer, err := tools.Packer(t.Context(), *packerVersion, t.Output())
		require.NoError(t, err)
		installs(t, packer, dist)
	})
}

// systems are the systems of the plugin. The command is built for all but FreeBSD.
func systems() []string {
	if *only != "" {
		return strings.Split(*only, ",")
	}
	return []string{"darwin_amd64", "darwin_arm64", "freebsd_amd64", "linux_amd64", "linux_arm64", "windows_amd64", "windows_arm64"}
}

// archiveOf names the archive of the command for a system, or is empty.
func archiveOf(system string) string {
	switch name := "eksnode_v" + number + "_" + system; {
	case strings.HasPrefix(system, "freebsd"):
		return ""
	case strings.HasPrefix(system, "windows"):
		return name + ".zip"
	default:
		return name + ".tar.gz"
	}
}

// files names all files of a release, sorted.
func files() []string {
	var all []string
	for _, name := range []string{plugin, "eksnode_v" + number} {
		all = append(all, name+"_SHA256SUMS", name+"_SHA256SUMS.sig")
	}
	for _, system := range systems() {
		all = append(all, plugin+"_x5.0_"+system+".zip", plugin+"_x5.0_"+system+".cdx.json")
		if archive := archiveOf(system); archive != "" {
			all = append(all, archive, "eksnode_v"+number+"_"+system+".cdx.json")
		}
		all = append(all, packagesOf(system)...)
	}
	return slices.Sorted(slices.Values(all))
}

// uploads names the files that goreleaser would publish.
func uploads(t *testing.T, dist string) []string {
	artifacts := testkit.JSON[[]struct{ Name, Type string }](t,
		testkit.Content(t, filepath.Join(dist, "artifacts.json")))
	var names []string
	for _, a := range artifacts {
		if slices.Contains([]string{"Archive", "Checksum", "Linux Package", "Signature", "SBOM"}, a.Type) {
			names = append(names, a.Name)
		}
	}
	return slices.Sorted(slices.Values(names))
}

// tagged makes a repository with one tagged commit: the files of this repository,
// with its changes.
func tagged(t *testing.T) string {
	root := strings.TrimSpace(testkit.In(t, "", "git", "rev-parse", "--show-toplevel"))
	folder := filepath.Join(t.TempDir(), "sources")
	require.NoError(t, os.Mkdir(folder, 0o755))
	copying := exec.CommandContext(t.Context(), "sh", "-c", `git ls-files -z --cached --others --exclude-standard --deduplicate |
		tar -c --null --files-from - --ignore-failed-read | tar -x -C "$0"`, folder)
	copying.Dir = root
	testkit.Output(t, copying)
	if *only != "" {
		config := filepath.Join(folder, ".goreleaser.yml")
		text := targets.ReplaceAllString(testkit.Content(t, config), "    targets: ["+*only+"]\n")
		require.NotContains(t, text, "goarch:")
		require.NoError(t, os.WriteFile(config, []byte(text), 0o644))
	}
	testkit.In(t, folder, "git", "init", "-q")
	testkit.In(t, folder, "git", "add", ".")
	testkit.In(t, folder, "git", "-c", "user.name=check", "-c", "user.email=check@example.com", "commit", "-qm",
		"Check", "--date", "2026-01-02T03:04:05Z")
	testkit.In(t, folder, "git", "tag", "v"+number)
	testkit.In(t, folder, "git", "remote", "add", "origin", "https://github.com/eksnode/packer-plugin-eksnode")
	return folder
}

// targets are the systems in the configuration of goreleaser.
var targets = regexp.MustCompile(`(?m)^    goos: .*\n    goarch: .*\n(?:    ignore: .*\n)?`)

type key struct{ home, fingerprint string }

func newKey(t *testing.T) key {
	home, err := os.MkdirTemp("", "gpg") // the path of gpg's socket must be short
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(home) })
	k := key{home: home}
	k.gpg(t, "--passphrase", "", "--quick-generate-key", "check@example.com", "ed25519", "sign", "1d")
	for line := range strings.Lines(k.gpg(t, "--with-colons", "--list-keys")) {
		if rest, ok := strings.CutPrefix(line, "fpr:"); ok {
			k.fingerprint = strings.Trim(rest, ":\n")
		}
	}
	require.NotEmpty(t, k.fingerprint)
	return k
}

func (k key) gpg(t *testing.T, args ...string) string {
	return testkit.In(t, "", "gpg", append([]string{"--batch", "--homedir", k.home}, args...)...)
}

// build runs goreleaser without publishing.
func build(t *testing.T, checkout string, k key) (dist string) {
	bin, err := filepath.Abs("../../bin/tools")
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "goreleaser"), "release", "--skip=publish", "--parallelism=2", "--timeout=50m")
	cmd.Dir = checkout
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "GPG_FINGERPRINT="+k.fingerprint, "GNUPGHOME="+k.home, "MAKEFLAGS=")
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	require.NoError(t, cmd.Run())
	return filepath.Join(checkout, "dist")
}

// checksums verifies each checksum file with sha256sum. Packer reads every line of
// the plugin's checksum file as a zip of the plugin.
func checksums(t *testing.T, dist string, k key) {
	var plugins, commands []string
	for _, system := range systems() {
		plugins = append(plugins, plugin+"_x5.0_"+system+".zip")
		if archive := archiveOf(system); archive != "" {
			commands = append(commands, archive)
		}
		commands = append(commands, packagesOf(system)...)
	}
	for name, want := range map[string][]string{plugin + "_SHA256SUMS": plugins, "eksnode_v" + number + "_SHA256SUMS": commands} {
		var listed []string
		for line := range strings.Lines(testkit.Content(t, filepath.Join(dist, name))) {
			listed = append(listed, strings.Fields(line)[1])
		}
		assert.ElementsMatch(t, want, listed, name)
		testkit.In(t, dist, "sha256sum", "--check", "--strict", name)
		k.gpg(t, "--verify", filepath.Join(dist, name+".sig"), filepath.Join(dist, name))
	}
}

// programs checks every archive: name, mode and target of the program, and its bill
// of materials.
func programs(t *testing.T, checkout, dist string) {
	agents := testkit.Glob(t, filepath.Join(checkout, "plugin/embedded/agents/*.gz"))
	require.Len(t, agents, 2)
	for _, system := range systems() {
		exe := ""
		if strings.HasPrefix(system, "windows") {
			exe = ".exe"
		}
		name := plugin + "_x5.0_" + system
		program := unpack(t, filepath.Join(dist, name+".zip"), name+exe)
		builtFor(t, program, system)
		bill(t, filepath.Join(dist, name+".cdx.json"), program)
		for _, agent := range agents {
			holds := strings.Contains(testkit.Content(t, program), testkit.Content(t, agent))
			assert.True(t, holds, "%s holds %s", name, filepath.Base(agent))
		}
		if archive := archiveOf(system); archive != "" {
			program := unpack(t, filepath.Join(dist, archive), "eksnode"+exe)
			builtFor(t, program, system)
			bill(t, filepath.Join(dist, "eksnode_v"+number+"_"+system+".cdx.json"), program)
		}
	}
}

// unpack returns the path of a program from an archive. The archive also has the
// licence and, with the command, man pages and completion scripts.
func unpack(t *testing.T, archive, program string) string {
	folder := t.TempDir()
	if filepath.Ext(archive) == ".zip" {
		testkit.In(t, folder, "unzip", "-q", archive)
	} else {
		testkit.In(t, folder, "tar", "-xf", archive)
	}
	entries := testkit.Names(t, folder)
	if strings.HasPrefix(program, "eksnode") {
		require.Len(t, entries, 3, archive)
		for _, name := range []string{"bash-completion/completions/eksnode", "zsh/site-functions/_eksnode", "fish/vendor_completions.d/eksnode.fish", "powershell/eksnode.ps1", "man/man1/eksnode.1.gz"} {
			assert.FileExists(t, filepath.Join(folder, "share", name))
		}
	} else {
		require.Len(t, entries, 2, archive)
	}
	assert.FileExists(t, filepath.Join(folder, "LICENSE"))
	info, err := os.Stat(filepath.Join(folder, program))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o755), info.Mode().Perm(), program)
	return filepath.Join(folder, program)
}

// builtFor checks that a program is static and contains no path of this machine.
func builtFor(t *testing.T, program, system string) {
	info, err := buildinfo.ReadFile(program)
	require.NoError(t, err)
	goos, goarch, _ := strings.Cut(system, "_")
	for _, want := range []debug.BuildSetting{
		{Key: "GOOS", Value: goos}, {Key: "GOARCH", Value: goarch}, {Key: "-trimpath", Value: "true"}, {Key: "CGO_ENABLED", Value: "0"},
	} {
		assert.Contains(t, info.Settings, want, filepath.Base(program))
	}
}

// bill checks that a bill of materials lists every module of the program.
func bill(t *testing.T, file, program string) {
	b := testkit.JSON[struct {
		Metadata struct {
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version string }
	}](t, testkit.Content(t, file))
	assert.Equal(t, module, b.Metadata.Component.Name)
	assert.Equal(t, "v"+number, b.Metadata.Component.Version)
	listed := map[string]string{}
	for _, c := range b.Components {
		listed[c.Name] = c.Version
	}
	info, err := buildinfo.ReadFile(program)
	require.NoError(t, err)
	require.NotEmpty(t, info.Deps)
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		assert.Equal(t, m.Version, listed[m.Path], "%s: %s", filepath.Base(file), m.Path)
	}
	assert.Contains(t, listed, "std")
}

// versions runs the programs for this machine.
func versions(t *testing.T, dist string) {
	system := runtime.GOOS + "_" + runtime.GOARCH
	command := unpack(t, filepath.Join(dist, archiveOf(system)), "eksnode")
	assert.Equal(t, number+"\n", testkit.In(t, "", command, "version"))
	name := plugin + "_x5.0_" + system
	described := testkit.In(t, "", unpack(t, filepath.Join(dist, name+".zip"), name), "describe")
	is := testkit.JSON[struct {
		Version      string   `json:"version"`
		API          string   `json:"api_version"`
		Provisioners []string `json:"provisioners"`
	}](t, described)
	assert.Equal(t, number, is.Version)
	assert.Equal(t, "x5.0", is.API)
	assert.NotEmpty(t, is.Provisioners)
}

// installs runs packer init: it finds the release on a local GitHub, downloads and
// verifies the plugin, and loads both provisioners. Then again without a network.
func installs(t *testing.T, packer, dist string) {
	home := t.TempDir()
	template := filepath.Join(home, "check.pkr.hcl")
	testkit.Write(t, template, strings.ReplaceAll(testkit.Content(t, "testdata/check.pkr.hcl"), "{version}", number))
	proxy, certificate := github(t, dist)
	require.NoError(t, os.WriteFile(filepath.Join(home, "ca.pem"), certificate, 0o644))
	for _, step := range []struct{ verb, proxy string }{{"init", proxy}, {"init", "http://127.0.0.1:1"}, {"validate", "http://127.0.0.1:1"}} {
		cmd := exec.CommandContext(t.Context(), packer, step.verb, template)
		cmd.Dir = home
		cmd.Env = append(os.Environ(), "HOME="+home, "PACKER_CONFIG_DIR="+home, "PACKER_PLUGIN_PATH="+filepath.Join(home, "plugins"),
			"CHECKPOINT_DISABLE=1", "PACKER_GITHUB_API_TOKEN=", "SSL_CERT_FILE="+filepath.Join(home, "ca.pem"), "HTTPS_PROXY="+step.proxy, "NO_PROXY=")
		out := testkit.Output(t, cmd)
		t.Logf("packer %s by %s: %s", step.verb, step.proxy, strings.TrimSpace(out))
	}
}
