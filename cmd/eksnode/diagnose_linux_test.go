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

	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/diagnose"
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
	out, _ := exits(t, 1, "diagnose", "--root", root)
	assert.Contains(t, out, "\n  "+root+"/var/log/journal:")
	assert.Contains(t, out, "unauthorized: ")
	assert.NotContains(t, out, "swap: ")

	out, _ = exits(t, 1, "diagnose", journal)
	assert.Contains(t, out, "\n  "+journal+":")

	// A link to the journal of another machine is not followed.
	other := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(other, "var/log"), 0o755))
	require.NoError(t, os.Symlink(filepath.Join(root, "var/log/journal"), filepath.Join(other, "var/log/journal")))
	out, _ = exits(t, 2, "diagnose", "--root", other)
	assert.Empty(t, out)
}

// Swap is evidence without any log line.
func TestDiagnoseSeesSwapOfTheMachine(t *testing.T) {
	const swaps = "Filename\tType\tSize\tUsed\tPriority\n"
	for used, want := range map[string][]string{"": nil, "/swapfile file 1024 0 -2\n": {"/proc/swaps: /swapfile file 1024 0 -2"}} {
		h := hosttest.Root(t, map[string]string{"/proc/swaps": swaps + used, "/var/lib/containerd/": "", "/var/lib/kubelet/": ""})
		s := diagnose.NewSearch(t.Context())
		require.NoError(t, ownState(h, s))
		var evidence []string
		for _, f := range s.Report().Findings {
			if f.Rule.ID == "swap" { // this machine's disk may be full
				evidence = f.Evidence
			}
		}
		assert.Equal(t, want, evidence)
	}
	require.EqualError(t, diagnose.NewSearch(t.Context()).Observe("none", "x"), `adding "x": there is no rule none`)
}
