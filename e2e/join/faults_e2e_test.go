//go:build e2e && full

package join_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/join"
)

// disks looks at captured disks with the command that users have.
func (w *world) disks() join.Disks {
	w.t.Helper()
	eksnode, err := filepath.Abs("../../bin/eksnode")
	require.NoError(w.t, err)
	return join.Disks{Eksnode: eksnode, Folder: w.lab.Folder()}
}

// snapshot copies the disk of a machine that runs: what its kernel has not
// written yet is not in the copy.
func (w *world) snapshot(i *join.Instance, to string) {
	w.t.Helper()
	require.NoError(w.t, join.Copy(w.ctx, filepath.Join(w.lab.Folder(), i.InstanceID(), "disk.raw"), to))
}

// After each fault the image is clean or is refused, and what was interrupted
// can be finished. (Killing the agent while it provisions, full disks and lost
// connections are the matter of e2e/node; a kill before every single change of a
// scrub that of e2e/scrub.)
func TestFaults(t *testing.T) {
	w := openWorld(t, "", 30*time.Minute)
	disks := w.disks()
	start := func(t *testing.T, id string) (*world, *join.Instance) {
		w := w.in(t)
		i := w.launch(id, w.image, w.a, w.a.AmazonScript("--node-labels=cluster=a"))
		w.works(w.a, i, id, wordOfA)
		return w, i
	}
	t.Run("captured while it runs, right after the scrub", func(t *testing.T) {
		w, i := start(t, "i-running")
		defer w.end(i)
		image := filepath.Join(w.lab.Folder(), "running.raw")
		w.do(i, "umount -q /var/lib/cloud/seed/nocloud || true; eksnode scrub --yes")
		w.snapshot(i, image)
		clean, said, err := disks.Audit(w.ctx, image)
		require.NoError(t, err)
		assert.True(t, clean, said)
		w.joinsB("i-of-running", image)
	})
	t.Run("the scrub is killed and the power fails", func(t *testing.T) {
		w, i := start(t, "i-killed")
		defer w.end(i)
		image := filepath.Join(w.lab.Folder(), "killed.raw")
		w.do(i, `umount -q /var/lib/cloud/seed/nocloud || true
eksnode scrub --yes > /run/scrub.log 2>&1 &
until grep -q kubelet-pki /run/scrub.log; do :; done
kill -KILL $!`)
		require.NoError(t, i.Kill())
		require.NoError(t, i.Capture(w.ctx, image))
		clean, said, err := disks.Audit(w.ctx, image)
		require.NoError(t, err)
		files, _, err := disks.Search(w.ctx, image, wordOfA)
		require.NoError(t, err)
		if clean {
			assert.Empty(t, files, "an image that passes must be clean")
		}
		w.step("its audit passes: %t; %d files know cluster A; %s", clean, len(files), lastLine(said))
		require.NoError(t, disks.Scrub(w.ctx, image))
		clean, said, err = disks.Audit(w.ctx, image)
		require.NoError(t, err)
		require.True(t, clean, said)
		w.joinsB("i-of-killed", image)
	})
	t.Run("the disk is full", func(t *testing.T) {
		w, i := start(t, "i-full")
		image := filepath.Join(w.lab.Folder(), "full.raw")
		w.do(i, "fallocate -l \"$(df --output=avail -B1 / | tail -1)\" /tmp/full || true; echo x > /var/full 2>/dev/null && echo '(there is room)' || true\numount -q /var/lib/cloud/seed/nocloud || true; eksnode scrub --yes && eksnode audit")
		require.NoError(t, w.captured(i, image))
		clean, said, err := disks.Audit(w.ctx, image)
		require.NoError(t, err)
		require.True(t, clean, said)
		w.joinsB("i-of-full", image)
	})
}

// joinsB requires that an instance of the image joins cluster B.
func (w *world) joinsB(id, image string) {
	w.t.Helper()
	i := w.launch(id, image, w.b, w.b.NodeConfig())
	defer w.end(i)
	w.works(w.b, i, id, "word-of-b")
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
