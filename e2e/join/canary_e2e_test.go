//go:build e2e && full

package join_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
)

// plant appends the word to every file that a scrub would remove. It leaves out
// databases, which only their own programs may change; the keys that the test
// logs in with; and the files that running services read.
const plant = `systemctl stop kubelet
eksnode scrub --dry-run --output json > /run/plan.json || [ $? = 1 ]
sed -n '/"verb": "\(remove\|empty\)"/{n;s/.*"target": "\(.*\)",/\1/p}' /run/plan.json | grep -v -e /var/log/journal -e /var/lib/containerd -e /etc/ssh/ -e /etc/sudoers.d -e /etc/containerd -e /etc/systemd | while read -r path; do
  find "$path" -xdev -type f
done | sort -u > /run/planted
while read -r file; do echo "$word" >> "$file"; done < /run/planted
sync
wc -l < /run/planted`

// The word is in all state of cluster A's node: from the pod that ran there,
// and planted in every file. After a scrub with wiping, no file of the captured
// disk has the word, and no block except in the file system's journal.
func TestScrubRemovesPlantedWordFromDisk(t *testing.T) {
	w := openWorld(t, lab.System{}, 30*time.Minute)
	dirty, clean := filepath.Join(w.Folder(), "dirty.raw"), filepath.Join(w.Folder(), "clean.raw")
	first := w.launch(firstID, w.image, w.a.role, w.a.amazonScript("--node-labels=cluster=a"))
	w.works(w.a, first, "first", wordOfA)
	w.step("planted in %s files", first.Sh(w.t, "word="+wordOfA+"\n"+plant))
	snapshot(t, first, dirty) // with planted words in its configuration the machine would not boot again
	first.Sh(t, "umount -q /var/lib/cloud/seed/nocloud || true; eksnode scrub --yes --wipe-free-space && eksnode audit")
	first.CaptureTo(t, clean)

	files, blocks := lab.Disk(dirty).Search(t, wordOfA)
	w.step("before the scrub: %d files, %d blocks", len(files), len(blocks))
	assert.Greater(t, len(files), 20)
	assert.Greater(t, len(blocks), 20)

	files, blocks = lab.Disk(clean).Search(t, wordOfA)
	w.step("after the scrub: files %q, blocks by owner %v", files, blocks)
	assert.Empty(t, files)
	for block, owner := range blocks {
		assert.Equal(t, lab.Journal, owner, "block %d", block)
	}
}
