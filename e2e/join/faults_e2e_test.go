//go:build e2e && full

package join_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
)

// snapshot copies the disk of a running machine. The copy lacks data that the
// kernel has not written yet.
func snapshot(t *testing.T, i *instance, to string) { copyDisk(t, i.Disk(), to) }

func copyDisk(t *testing.T, from, to string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "cp", "--sparse=always", "--reflink=auto", from, to).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// After each fault the audit passes a clean image or refuses it, and the
// interrupted command can be completed. (Package e2e/node tests agents killed
// while provisioning, full disks and lost connections; e2e/scrub tests a kill
// before every single change of a scrub.)
func TestFaults(t *testing.T) {
	w := openWorld(t, lab.System{}, 30*time.Minute)
	start := func(t *testing.T, id string) (*world, *instance) {
		w := w.in(t)
		i := w.launch(id, w.image, w.a.role, w.a.amazonScript("--node-labels=cluster=a"))
		w.works(w.a, i, id, wordOfA)
		return w, i
	}
	t.Run("captured while it runs, right after the scrub", func(t *testing.T) {
		w, i := start(t, "i-running")
		defer w.end(i)
		image := filepath.Join(w.Folder(), "running.raw")
		i.Sh(w.t, "umount -q /var/lib/cloud/seed/nocloud || true; eksnode scrub --yes")
		snapshot(t, i, image)
		clean, said := lab.Disk(image).Audit(t)
		assert.True(t, clean, said)
		w.joinsB("i-of-running", image, w.b.nodeConfig())
	})
	t.Run("the scrub is killed and the power fails", func(t *testing.T) {
		w, i := start(t, "i-killed")
		defer w.end(i)
		image := filepath.Join(w.Folder(), "killed.raw")
		i.Sh(w.t, `umount -q /var/lib/cloud/seed/nocloud || true
eksnode scrub --yes > /run/scrub.log 2>&1 &
until grep -q kubelet-pki /run/scrub.log; do :; done
kill -KILL $!`)
		require.NoError(t, i.Kill())
		require.NoError(t, i.Capture(w.Ctx, image))
		clean, said := lab.Disk(image).Audit(t)
		files, _ := lab.Disk(image).Search(t, wordOfA)
		if clean {
			assert.Empty(t, files, "an image that passes must be clean")
		}
		w.step("the image's audit passes: %t; %d files name cluster A; %s", clean, len(files), lastLine(said))
		lab.Disk(image).Scrub(t)
		clean, said = lab.Disk(image).Audit(t)
		require.True(t, clean, said)
		w.joinsB("i-of-killed", image, w.b.nodeConfig())
	})
	t.Run("the disk is full", func(t *testing.T) {
		w, i := start(t, "i-full")
		image := filepath.Join(w.Folder(), "full.raw")
		i.Sh(w.t, "fallocate -l \"$(df --output=avail -B1 / | tail -1)\" /tmp/full || true; echo x > /var/full 2>/dev/null && echo '(there is room)' || true\numount -q /var/lib/cloud/seed/nocloud || true; eksnode scrub --yes && eksnode audit")
		i.CaptureTo(t, image)
		clean, said := lab.Disk(image).Audit(t)
		require.True(t, clean, said)
		w.joinsB("i-of-full", image, w.b.nodeConfig())
	})
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
