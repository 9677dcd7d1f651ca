//go:build !agent

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

func TestAReportCanBeAPage(t *testing.T) {
	root := t.TempDir()
	testkit.Write(t, filepath.Join(root, "etc/os-release"), "ID=debian\nVERSION_ID=\"12\"\n")
	require.NoError(t, os.WriteFile(filepath.Join(root, "etc/machine-id"), []byte(strings.Repeat("0123456789abcdef", 2)+"\n"), 0o644))
	file := filepath.Join(t.TempDir(), "image.HTML")
	exits(t, 1, "audit", "--root", root, "--rules", "machine-id", "--report", file)
	text := testkit.Content(t, file)
	assert.Contains(t, text, "<!doctype html>")
	assert.Contains(t, text, "<td>machine-id</td><td>/etc/machine-id</td>")
}
