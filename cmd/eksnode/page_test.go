//go:build !agent

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAReportCanBeAPage(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "etc"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "etc/os-release"), []byte("ID=debian\nVERSION_ID=\"12\"\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(root, "etc/machine-id"), []byte(strings.Repeat("0123456789abcdef", 2)+"\n"), 0o644))
	file := filepath.Join(t.TempDir(), "image.HTML")
	exits(t, 1, "audit", "--root", root, "--rules", "machine-id", "--report", file)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Contains(t, string(text), "<!doctype html>")
	assert.Contains(t, string(text), "<td>machine-id</td><td>/etc/machine-id</td>")
}
