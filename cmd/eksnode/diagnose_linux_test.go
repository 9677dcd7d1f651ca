//go:build !agent

package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"
)

// putJournal writes a journal of two boots, whose last one shows the cause
// unauthorized, into a file.
func putJournal(t *testing.T, name string) {
	t.Helper()
	in, err := os.Open("../../internal/diagnose/testdata/node.journal.xz")
	require.NoError(t, err)
	defer in.Close()
	x, err := xz.NewReader(in)
	require.NoError(t, err)
	text, err := io.ReadAll(x)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(t, os.WriteFile(name, text, 0o600))
}

// The machine's journalctl reads the journal of an image root, and a journal file.
func TestDiagnoseReadsJournals(t *testing.T) {
	root := t.TempDir()
	journal := filepath.Join(root, "var/log/journal/0123456789abcdef0123456789abcdef/system.journal")
	putJournal(t, journal)
	code, out, errOut := command(t, "", "diagnose", "--root", root)
	assert.Equal(t, 1, code, errOut)
	assert.Contains(t, out, "\n  "+root+"/var/log/journal:")
	assert.Contains(t, out, "unauthorized: ")
	assert.NotContains(t, out, "swap: ")

	code, out, errOut = command(t, "", "diagnose", journal)
	assert.Equal(t, 1, code, errOut)
	assert.Contains(t, out, "\n  "+journal+":")

	// A link to the journal of another machine is not followed.
	other := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(other, "var/log"), 0o755))
	require.NoError(t, os.Symlink(filepath.Join(root, "var/log/journal"), filepath.Join(other, "var/log/journal")))
	code, out, _ = command(t, "", "diagnose", "--root", other)
	assert.Equal(t, 2, code, out)
	assert.Empty(t, out)
}
