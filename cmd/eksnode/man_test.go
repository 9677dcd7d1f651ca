//go:build linux && !agent

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// writeMan writes the man pages into a new folder.
func writeMan(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "man1")
	var out, errOut bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"man", folder}, nil, &out, &errOut), errOut.String())
	assert.Empty(t, out.String())
	return folder
}

// Every command in the help has a man page, and man prints no warnings.
func TestEveryCommandHasAManPage(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1767225599") // 2025-12-31, one second before 2026
	t.Setenv("TZ", "Asia/Tokyo")
	folder := writeMan(t)
	again := writeMan(t)
	pages := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
		page, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		pages++
		same, err := os.ReadFile(filepath.Join(again, name))
		require.NoError(t, err)
		assert.Equal(t, string(page), string(same), name)
		assert.Contains(t, string(page), `"1" "Dec 2025" "eksnode `, name)
		assert.Contains(t, string(page), c.Short, name)
		assert.NotContains(t, string(page), "Auto generated", name)
		said, err := exec.CommandContext(t.Context(), "sh", "-c", `LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$0" 2>&1 > /dev/null`, filepath.Join(folder, name)).Output()
		require.NoError(t, err, name)
		assert.Empty(t, string(said), name)
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() && sub.Name() != "help" {
				walk(sub)
			}
		}
	}
	walk(root())
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	assert.Len(t, entries, pages)

	text, err := exec.CommandContext(t.Context(), "man", "-l", filepath.Join(folder, "eksnode-userdata.1")).Output()
	require.NoError(t, err)
	assert.Regexp(t, `(?m)^ +bottlerocket  Bottlerocket's settings in TOML$`, string(text), "a list must keep its lines")
	assert.NotContains(t, string(text), "eksnode-userdata-help")
}

func TestInvalidSourceDateEpochIsAnError(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	var out, errOut bytes.Buffer
	assert.Equal(t, usageCode, run(t.Context(), []string{"man", t.TempDir()}, nil, &out, &errOut))
	assert.Equal(t, "eksnode: reading SOURCE_DATE_EPOCH: \"yesterday\" is not a number of seconds\n", errOut.String())
}

// The agent is sent to every builder machine, so it does not link cobra's package
// doc and its imports.
func TestTheAgentHasNoManPages(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", "agent", ".")
	list.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := list.Output()
	require.NoError(t, err)
	assert.Contains(t, string(out), "github.com/spf13/cobra\n")
	assert.NotContains(t, string(out), "github.com/spf13/cobra/doc")
	assert.NotContains(t, string(out), "md2man")
}
