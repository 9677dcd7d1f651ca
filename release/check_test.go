package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestACopyHoldsWhatWouldBeCommitted(t *testing.T) {
	r := one(t)
	for name, text := range map[string]string{".gitignore": "/ignored\n", "ignored": "x", "a/committed": "old", "a/new": "new", "gone": "x"} {
		name = filepath.Join(r.root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "a/committed", "gone"}} {
		_, err := output(t.Context(), r.root, "git", args...)
		require.NoError(t, err)
	}
	require.NoError(t, os.WriteFile(filepath.Join(r.root, "a", "committed"), []byte("changed"), 0o644))
	require.NoError(t, os.Remove(filepath.Join(r.root, "gone")))

	copied := t.TempDir()
	require.NoError(t, r.copySources(t.Context(), copied))
	text, err := os.ReadFile(filepath.Join(copied, "a", "committed"))
	require.NoError(t, err)
	assert.Equal(t, "changed", string(text))
	assert.FileExists(t, filepath.Join(copied, "a", "new"))
	assert.NoFileExists(t, filepath.Join(copied, "ignored"))
	assert.NoFileExists(t, filepath.Join(copied, "gone"))
}

func TestThePluginIsAskedWhatItIs(t *testing.T) {
	r := one(t)
	plugin := filepath.Join(t.TempDir(), "plugin")
	answer := func(text string) {
		require.NoError(t, os.WriteFile(plugin, []byte("#!/bin/sh\necho '"+text+"'\n"), 0o755))
	}
	answer(`{"version":"1.2.3","api_version":"x5.0","provisioners":["a"]}`)
	require.NoError(t, r.describes(t.Context(), plugin))
	for _, wrong := range []string{
		`{"version":"1.2.3-dev","api_version":"x5.0","provisioners":["a"]}`,
		`{"version":"1.2.3","api_version":"x6.0","provisioners":["a"]}`,
		`{"version":"1.2.3","api_version":"x5.0","provisioners":[]}`,
	} {
		answer(wrong)
		require.ErrorContains(t, r.describes(t.Context(), plugin), "asking the plugin what it is: it says "+wrong)
	}
}
