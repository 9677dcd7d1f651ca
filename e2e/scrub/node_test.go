//go:build e2e && qemu

package scrub_test

import (
	_ "embed"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
)

// canary is a word in all state of the old machine. After the scrub no file may
// contain it.
const canary = "canary-5f1c9d27-of-the-old-cluster"

// kubeletSetup starts a kubelet without an API server. It runs the static pods
// in a folder.
//
//go:embed testdata/kubelet.sh
var kubeletSetup string

// plant writes the canary into every file of the old cluster's and machine's
// state, and into logs through the programs that write them.
//
//go:embed testdata/plant.sh
var plant string

// ofTheOld fills a script with the canary and the image.
func ofTheOld(script string) string {
	return strings.NewReplacer("{canary}", canary, "{image}", imageName).Replace(script)
}

// state lists the state that a scrub has to find.
const state = `echo containers $(ctr -n k8s.io containers ls -q | wc -l)
echo tasks $(ctr -n k8s.io tasks ls -q | wc -l)
echo leases $(ctr -n k8s.io leases ls -q | wc -l)
echo mounts $(grep -c " /var/lib/kubelet/" /proc/self/mountinfo)
echo images $(ctr -n k8s.io images ls -q | tr '\n' ' ')
echo snapshots $(ctr -n k8s.io snapshots ls | grep -c Committed)
echo kubelet $(systemctl is-active kubelet) $(systemctl is-enabled kubelet)
`

// A machine with the state of containerd, a kubelet, cloud-init, sshd and
// journald is scrubbed while it runs. The captured image must contain none of
// that state.
func TestScrubRunningNodeAndCapture(t *testing.T) {
	l := lab.Open(t, limit, machine.Nspawn, machine.QEMU)
	builder := l.Start(t, machine.Config{Root: l.Root, InstanceID: "i-equip"})
	equip(t, builder)
	builder.Sh(t, ofTheOld(kubeletSetup)+"systemctl stop containerd; rm -rf /var/lib/containerd")
	equipped := filepath.Join(l.Folder(), "equipped.raw")
	builder.CaptureTo(t, equipped)

	// Only a virtual machine has control groups and a disk of its own.
	n := l.Start(t, machine.Config{Kind: machine.QEMU, Image: equipped, InstanceID: "i-old", Memory: 2048})
	n.Await(t, "containerd runs", patience, "ctr version")
	n.Import(t, "", pause(t))
	n.Await(t, "the static pod's container runs", patience, "ctr -n k8s.io tasks ls | grep -c RUNNING | grep -qx 2")
	n.Await(t, "the static pod's volumes are mounted", patience, `test "$(grep -c ' /var/lib/kubelet/pods/' /proc/self/mountinfo)" -ge 2`)
	n.Sh(t, ofTheOld(plant))
	before := n.Sh(t, state)
	t.Logf("before:\n%s", before)
	assert.Contains(t, before, "containers 3\ntasks 3\nleases 1\nmounts ")
	assert.Contains(t, before, "kubelet active enabled")
	t.Logf("the canary is in: %s", n.Sh(t, "grep -rlFs "+canary+" /etc /var /root /home /tmp | head -100"))

	// All commands share one session, because the scrub removes the login key. The
	// container that tests the image leaves its specification in containerd's
	// database; a second scrub removes it.
	result := n.Try(t, "eksnode scrub --yes --wipe-free-space --report /run/report.json 2>&1 && echo exit 0\n"+freeBlocks+state+
		"ctr -n k8s.io images check\nctr -n k8s.io run -d "+imageName+` again && echo the image is usable
ctr -n k8s.io tasks rm --force again || true; ctr -n k8s.io containers rm again
eksnode scrub --yes --rules containerd
eksnode audit && echo audit 0
grep -rlFs `+canary+` /etc /var /root /home /tmp /usr /opt /srv /boot || echo no canary`)
	t.Logf("%s%s", result.Stdout, result.Stderr)
	for _, want := range []string{
		"exit 0", "containers 0\ntasks 0\nleases 0\nmounts 0", "images " + imageName, "complete (2/2)", "the image is usable", "kubelet inactive disabled", "audit 0", "no canary",
	} {
		assert.Contains(t, result.Stdout, want)
	}
	image := filepath.Join(l.Folder(), "image.raw")
	n.CaptureTo(t, image)
	checkCaptured(t, lab.Disk(image), result.Stdout)
}

// freeBlocks lists the free blocks of the root file system in dumpe2fs's
// format.
const freeBlocks = `dumpe2fs $(findmnt --noheadings --output SOURCE /) 2>/dev/null | grep '^  Free blocks: '
`

func freeAt(t *testing.T, listed string) func(block int64) bool {
	t.Helper()
	var ranges [][2]int64
	for _, r := range regexp.MustCompile(`[ ,](\d+)(?:-(\d+))?`).FindAllStringSubmatch(strings.Join(regexp.MustCompile(`(?m)^  Free blocks:.*`).FindAllString(listed, -1), "\n"), -1) {
		first, err := strconv.ParseInt(r[1], 10, 64)
		require.NoError(t, err)
		last := first
		if r[2] != "" {
			last, err = strconv.ParseInt(r[2], 10, 64)
			require.NoError(t, err)
		}
		ranges = append(ranges, [2]int64{first, last})
	}
	require.NotEmpty(t, ranges)
	return func(block int64) bool {
		return slices.ContainsFunc(ranges, func(r [2]int64) bool { return r[0] <= block && block <= r[1] })
	}
}

// checkCaptured audits an image and looks for the canary in its files and
// blocks. wiped lists the blocks that were free right after the free space was
// wiped.
func checkCaptured(t *testing.T, image lab.Disk, wiped string) {
	t.Helper()
	said, code := image.Sh(t, false, `"$EKSNODE" audit --root "$ROOT" 2>&1`)
	assert.Zero(t, code, said)
	files, blocks := image.Search(t, canary)
	assert.Empty(t, files)
	t.Logf("the canary is in these blocks of the disk, which belong to: %v", blocks)
	free := freeAt(t, wiped)
	for block, owner := range blocks {
		switch owner {
		case lab.Journal:
		case lab.Free:
			// For a block that the disk could have discarded, a whole cluster was
			// free. The partition starts at a cluster's start.
			whole := true
			for i := range int64(cluster) {
				whole = whole && free(block-block%cluster+i)
			}
			assert.False(t, whole, "the free block %d holds the canary", block)
		default:
			assert.Fail(t, "a file's block holds the canary", "block %d, inode %s", block, owner)
		}
	}
}

// cluster is the smallest unit that the machines' disk (qcow2) discards, in
// blocks. A free block next to a used one in the same cluster is kept.
const cluster = 64 << 10 / 4096

// patience bounds waits for emulated machines.
const patience = 5 * time.Minute
