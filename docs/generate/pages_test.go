package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

const root = "../.."

// The pages are generated once: that builds the command and reads all its help.
func TestPages(t *testing.T) {
	generated, err := pages(t.Context(), root)
	require.NoError(t, err)
	for name, test := range map[string]func(*testing.T, map[string]string){
		"committed pages are what the code says": committedPagesAreWhatTheCodeSays,
		"every rule has a section":               everyRuleHasASection,
		"every command has a page":               everyCommandHasAPage,
		"every step is described":                everyStepIsDescribed,
		"flags and fields have one home":         flagsAndFieldsHaveOneHome,
	} {
		t.Run(name, func(t *testing.T) { test(t, generated) })
	}
}

func committedPagesAreWhatTheCodeSays(t *testing.T, generated map[string]string) {
	for name, want := range generated {
		have := testkit.Content(t, filepath.Join(root, name))
		assert.Empty(t, difference(want, have), "%s differs from the code; run `make generate`", name)
	}
	old, err := stale(root, generated)
	require.NoError(t, err)
	assert.Empty(t, old, "nothing generates these pages any more; run `make generate`")
}

func TestStalePagesAreFound(t *testing.T) {
	folder := t.TempDir()
	hosttest.Lay(t, folder, map[string]string{
		"docs/reference/commands/eksnode-old.md": mark + " from x -->\n",
		"docs/reference/rules.md":                mark + " from x -->\n",
		".web-docs/old.md":                       mark + " from x -->\n",
		"docs/build.md":                          "# Written by hand\n",
	})
	old, err := stale(folder, map[string]string{"docs/reference/rules.md": ""})
	require.NoError(t, err)
	assert.Equal(t, []string{"docs/reference/commands/eksnode-old.md", ".web-docs/old.md"}, old)
}

// difference is the first line in which two pages differ.
func difference(want, have string) string {
	wanted, had := strings.Split(want, "\n"), strings.Split(have, "\n")
	for i := range min(len(wanted), len(had)) {
		if wanted[i] != had[i] {
			return fmt.Sprintf("line %d: the code says\n%s\nand the page\n%s", i+1, wanted[i], had[i])
		}
	}
	if len(wanted) != len(had) {
		return fmt.Sprintf("the code makes %d lines, the page has %d", len(wanted), len(had))
	}
	return ""
}

func everyRuleHasASection(t *testing.T, generated map[string]string) {
	for _, r := range rules() {
		assert.Equal(t, 1, strings.Count(generated["docs/reference/rules.md"]+generated["docs/reference/join-breakers.md"], "\n### "+r.ID+"\n"), "sections of the rule %s", r.ID)
	}
}

func everyCommandHasAPage(t *testing.T, generated map[string]string) {
	commands, err := readCommands(t.Context(), root)
	require.NoError(t, err)
	named := map[string]bool{}
	for _, c := range commands {
		for _, c := range c.all() {
			named[c.Name] = true
			page := generated[commandFolder+c.Page()]
			for _, part := range []string{"# eksnode " + c.Name + "\n", "\n## Synopsis\n", "\n## Exit codes\n", "\n- `0`: "} {
				assert.Contains(t, page, part, c.Name)
			}
			assert.NotEmpty(t, append(c.Flags, append(c.Global, make([]field, len(c.Below)+len(c.About))...)...), "%s has neither flags nor text", c.Name)
		}
	}
	for name, more := range extras().Commands {
		assert.NotContains(t, more.See, "", "docs/generate/commands.yaml has no such link of the command %q", name)
		assert.True(t, named[name], "docs/generate has exit codes of the command %q, which does not exist", name)
	}
	assert.True(t, named["userdata render"] && named["nodeadm config check"], "subcommands are missing")
}

// Every flag and every field has one home, and other pages name it.
func flagsAndFieldsHaveOneHome(t *testing.T, generated map[string]string) {
	all := generated[commandFolder+"README.md"]
	assert.Contains(t, all, "\n- `--profile string`: profile in the shared AWS configuration\n")
	verify := generated[commandFolder+"eksnode-ami-verify.md"]
	assert.Contains(t, verify, "(README.md#flags-of-several-commands): `--assume-role`")
	build := generated[commandFolder+"eksnode-build.md"]
	assert.Contains(t, build, "](../components/provisioner-eksnode.md): `--accept-ended`, ")
	assert.NotContains(t, build, "- `--kubernetes-version")
	assert.Contains(t, build, "\n- `--check-reproducible`: ", "a flag of one command")
	scrub := generated[components+"provisioner-eksnode-scrub.md"]
	assert.Contains(t, scrub, "\n- `report` (string) - As in [`provisioner-eksnode`](provisioner-eksnode.md#fields).\n")
	assert.Contains(t, scrub, "\n- `hash` (bool) - Record ", "a field of one component")
	_, err := linkedFields(root, "no-such-page")
	require.EqualError(t, err, "docs/generate has no component for the page no-such-page")
}

func everyStepIsDescribed(t *testing.T, generated map[string]string) {
	for _, d := range distros.All() {
		steps, err := provisioner.Steps(provisioner.Spec{KubernetesVersion: "1.34.4"}, d, provisioner.Inputs{Arch: "amd64"})
		require.NoError(t, err)
		_, after, _ := strings.Cut(generated["docs/reference/components/provisioner-eksnode.md"], "## Steps")
		for _, s := range steps { // in the order of the page
			_, rest, found := strings.Cut(after, "`"+s.ID()+"`")
			require.True(t, found, "the step %s is missing, or not in its place", s.ID())
			after = rest
		}
	}
}

func TestFieldsComeFromDocComments(t *testing.T) {
	folder := t.TempDir()
	write := func(component, text string) {
		text = "package x\n\ntype Config struct {\n" + text + "}\n"
		hosttest.Lay(t, folder, map[string]string{"plugin/" + component + "/config.go": text})
	}
	write("remote", "\t// A file.\n\tReport string `mapstructure:\"report\"`\n")
	write("a", "\tcommon.PackerConfig `mapstructure:\",squash\"`\n\tremote.Config `mapstructure:\",squash\"`\n"+
		"\t// What is\n\t// wanted.\n\tNames []string `mapstructure:\"names\" required:\"true\"`\n\tctx interpolate.Context\n")
	lists, err := readFields(folder, "a")
	require.NoError(t, err)
	assert.Equal(t, fieldLists{
		Required: []field{{"names", "list of strings", "What is wanted."}},
		Optional: []field{{"report", "string", "A file."}},
	}, lists)

	write("b", "\tNames []string `mapstructure:\"names\"`\n\t// A number.\n\tN float64 `mapstructure:\"n\"`\n\t// Text.\n\tBare string\n\tremote.Config\n")
	_, err = readFields(folder, "b")
	require.ErrorContains(t, err, "names: the doc comment is missing")
	require.ErrorContains(t, err, "n: docs/generate has no name for the type float64")
	require.ErrorContains(t, err, "Bare: the tag mapstructure is missing")
	require.ErrorContains(t, err, `remote.Config: an embedded struct needs the tag mapstructure:",squash"`)
}

func TestTextOfTheCodeIsNotMarkup(t *testing.T) {
	assert.Equal(t, `a \| b \*c\* &lt;d>`, plain("a | b *c* <d>"))
	for _, v := range []plan.Verb{plan.Remove, plan.Empty, plan.Write, plan.Restore, plan.Disable, plan.Stop, plan.Unmount, plan.Run, scrub.Report} {
		assert.NotEmpty(t, meanings[v], v)
	}
}

// The release's section in the changelog changes what the pages say.
func TestPagesSayWhetherThereIsARelease(t *testing.T) {
	folder := t.TempDir()
	hosttest.Lay(t, folder, map[string]string{
		"README.md":            "# A\n\n<!-- install -->\nold\n<!-- /install -->\n\nb\n",
		"docs/other.md":        "# Other\n",
		"docs/reference/x.md":  mark + " from x -->\n<!-- install -->\n<!-- /install -->\n",
		"examples/a/README.md": "<!-- install -->\n<!-- /install -->\n",
	})
	for changelog, want := range map[string]string{
		"## [Unreleased]\n": "> **Nothing is released yet**, so `packer init` cannot download the plugin.",
		"## [Unreleased]\n\n## [0.1.0] - 2026-12-01\n\n- x\n": "`packer init` downloads the newest release of the plugin.",
	} {
		hosttest.Lay(t, folder, map[string]string{"CHANGELOG.md": changelog})
		written, err := installPages(folder)
		require.NoError(t, err)
		require.Len(t, written, 2)
		assert.Contains(t, written["README.md"], "# A\n\n<!-- install -->\n"+want)
		assert.Contains(t, written["README.md"], "\n<!-- /install -->\n\nb\n")
		assert.NotContains(t, written["README.md"], "old")
		assert.Contains(t, written["examples/a/README.md"], want)
	}
	require.NoError(t, os.Remove(filepath.Join(folder, "CHANGELOG.md")))
	_, err := installPages(folder)
	require.ErrorIs(t, err, os.ErrNotExist)
}
