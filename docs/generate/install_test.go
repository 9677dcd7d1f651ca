package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The release's section in the changelog changes what the pages say.
func TestPagesSayWhetherThereIsARelease(t *testing.T) {
	folder := t.TempDir()
	put := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
	}
	put("README.md", "# A\n\n<!-- install -->\nold\n<!-- /install -->\n\nb\n")
	put("docs/other.md", "# Other\n")
	put("docs/reference/x.md", mark+" from x -->\n<!-- install -->\n<!-- /install -->\n")
	put("examples/a/README.md", "<!-- install -->\n<!-- /install -->\n")
	for changelog, want := range map[string]string{
		"## [Unreleased]\n": "> **Nothing is released yet**, so `packer init` cannot download the plugin.",
		"## [Unreleased]\n\n## [0.1.0] - 2026-12-01\n\n- x\n": "`packer init` downloads the newest release of the plugin.",
	} {
		put("CHANGELOG.md", changelog)
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
