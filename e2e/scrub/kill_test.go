//go:build e2e

package scrub_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/watch"
)

// A scrub that was killed before any of its changes is completed by the next
// scrub, also when a template's new file was being written. The result equals
// that of an undisturbed scrub. A third run changes nothing.
func TestScrubKilledBeforeEachChangeIsCompleted(t *testing.T) {
	folder := t.TempDir()
	begin := func(name string) string {
		root := filepath.Join(folder, name)
		write(t, root, dirty(t))
		for _, labelled := range []string{"etc/hosts", "etc/machine-id", "var/lib/kubelet/kubeconfig"} {
			require.NoError(t, unix.Setxattr(filepath.Join(root, labelled), "user.label", []byte("node"), 0))
		}
		return root
	}
	scrub := func(root string) []string {
		return []string{lab.Eksnode(t), "scrub", "--yes", "--audit", "off", "--root", root}
	}

	root := begin("whole")
	before := noted(t, root)
	total, killed := runWatched(t, -1, scrub(root)...)
	require.False(t, killed)
	want := noted(t, root)
	changed := want.Since(before)
	require.Greater(t, total, len(changed), "each change takes at least one call")
	said, code := run(t, "audit", "--skip-rules", "assets", "--root", root)
	require.Zero(t, code, said)
	t.Logf("a scrub makes %d calls that change files, and changes %d paths", total, len(changed))

	unfinished := 0
	for kill := 1; kill <= total; kill++ {
		root := begin("killed")
		_, killed := runWatched(t, kill, scrub(root)...)
		require.True(t, killed, "the scrub ended before its change %d", kill)
		if len(noted(t, root).Since(want)) > 0 {
			unfinished++
		}
		_, killed = runWatched(t, -1, scrub(root)...)
		require.False(t, killed)
		require.Empty(t, noted(t, root).Since(want), "killed before its change %d", kill)
		again, killed := runWatched(t, -1, scrub(root)...)
		require.False(t, killed)
		require.Zero(t, again, "a run after the completed one changes something")
		require.Empty(t, noted(t, root).Since(want))
		require.NoError(t, os.RemoveAll(root))
	}
	assert.Equal(t, total, unfinished, "a scrub killed before its last change must leave something")
}

// runWatched runs a program and kills it right before its kill-th change of a
// file system, so that it made exactly kill-1 changes. If kill is larger than
// the number of changes, the program ends by itself. runWatched returns how
// many changes the program tried.
func runWatched(t *testing.T, kill int, args ...string) (changes int, killed bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	run, err := watch.Start(cmd, func(int) bool {
		if changes++; changes != kill {
			return true
		}
		killed = true
		assert.NoError(t, cmd.Process.Kill())
		return false
	})
	require.NoError(t, err)
	err = run.Wait()
	<-run.Gone()
	require.NoError(t, run.Err())
	if !killed {
		require.NoError(t, err, "%s", said.String())
	}
	return changes, killed
}
