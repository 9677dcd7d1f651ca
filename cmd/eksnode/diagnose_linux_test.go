//go:build !agent

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/diagnose"
)

// putJournal writes a journal of two boots, whose last one shows the cause
// unauthorized, into a file.
func putJournal(t *testing.T, name string) {
	t.Helper()
	testkit.Write(t, name, testkit.Expanded(t, "../../internal/diagnose/testdata/node.journal.xz"))
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

// A full disk keeps no line in the journal, which is on it. The cause is certain, also on
// a node that joined.
func TestDiagnoseSeesFullDisksOfTheMachine(t *testing.T) {
	h := hosttest.Root(t, map[string]string{"/proc/swaps": "", "/var/lib/containerd/": "", "/var/lib/kubelet/": ""})
	seen := func() (certain []string) {
		s := diagnose.NewSearch(t.Context())
		require.NoError(t, ownState(h, s))
		require.NoError(t, s.Log(diagnose.Log{Name: "kubelet", Text: strings.NewReader("Successfully registered node a")}))
		for _, f := range s.Report().Findings {
			if f.Rule.ID == "disk-full" && f.Certainty == diagnose.Certain {
				certain = f.Evidence
			}
		}
		return certain
	}
	mount := func(folder string, argv ...string) {
		testkit.Run(t, "mount", append(argv, filepath.Join(h.Root(), folder))...)
		t.Cleanup(func() { assert.NoError(t, unix.Unmount(filepath.Join(h.Root(), folder), 0)) })
	}
	before := seen() // this machine's own disk

	// What only root may still write helps neither the kubelet nor containerd's users.
	testkit.Disk(t, filepath.Join(h.Root(), "/var/lib/containerd"), "400M", "", "mkfs.ext4", "-q", "-m", "50")
	assert.Equal(t, before, seen())
	big, err := os.Create(filepath.Join(h.Root(), "/var/lib/containerd/big"))
	require.NoError(t, err)
	require.NoError(t, unix.Fallocate(int(big.Fd()), 0, 0, 180<<20))
	require.NoError(t, big.Close())
	assert.Contains(t, strings.Join(seen(), "\n"), "/var/lib/containerd has ")

	mount("/var/lib/kubelet", "-t", "tmpfs", "-o", "nr_inodes=1", "none")
	assert.Contains(t, strings.Join(seen(), "\n"), " of free space and no free inode")
	mount("/var", "-t", "tmpfs", "-o", "size=1m,ro", "none") // as immutable systems have
	assert.Equal(t, before, seen())
	mount("/var", "-t", "tmpfs", "-o", "size=1m", "none")
	assert.Contains(t, strings.Join(seen(), "\n"), "/var has 1.0 MB of free space")
}
