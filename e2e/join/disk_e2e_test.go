//go:build e2e

package join_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
)

// The disk of a built machine becomes an AMI without an instance. Two instances of the
// AMI join, and have identities of their own. Another instance joins whose volume is
// encrypted: blocks that were not uploaded read as garbage there. The next version of the
// disk becomes an AMI with the first as its parent.
func TestDiskBecomesAMI(t *testing.T) {
	w := openWorld(t, lab.System{}, 20*time.Minute)
	require.NoError(t, base.Install(w.Ctx, t.Output(), machine.CloudPackages()...))
	source := filepath.Join(w.Folder(), "disk.raw")
	w.phase("a disk that BIOS and UEFI boot", func() {
		require.NoError(t, machine.MakeCloudDisk(w.Ctx, w.image, source))
		w.fill(source, zeros, "/dev/zero")
		w.fill(source, changing, "/dev/urandom")
	})
	a := w.openAccount()
	var volume, id string
	w.phase("the disk becomes an AMI", func() {
		made := w.imports(source, "node", "")
		assert.Equal(t, "uefi-preferred", made.Image.BootMode)
		id, volume = made.Upload.Snapshot.ID, a.Image("node").Disk.Image
	})
	w.phase("the volume is compared with the disk", func() { assert.Empty(t, w.faults(source, volume)) })
	w.phase("two instances of the AMI", func() { w.authorized("AMI of a disk", volume) })
	require.NoError(t, os.Remove(volume))

	encrypted := filepath.Join(a.Folder, "encrypted.raw")
	w.phase("an encrypted volume", func() {
		w.makeVolume(a, id, encrypted)
		assert.Empty(t, w.faults(source, encrypted))
	})
	w.phase("the same without zero blocks", func() {
		w.fillZeroBlocks(a, id, encrypted, 0xa5)
		faults := strings.Join(w.faults(source, encrypted), "\n")
		w.step("an upload without zero blocks has these faults:\n%s", faults)
		assert.Contains(t, faults, "./"+zeros, "the comparison does not see that zero blocks are missing")
		w.fillZeroBlocks(a, id, encrypted, 0)
	})
	w.phase("an instance with the encrypted volume", func() {
		i := w.launchMoved("i-encrypted", encrypted, w.b.role, w.b.nodeConfig())
		defer w.end(i)
		w.works(w.b, i, "encrypted", "word-of-b")
		w.record("AMI of a disk, encrypted", "NodeConfig", "joins", "")
	})
	w.phase("the next version, with a parent", func() {
		w.fill(source, changing, "/dev/zero")
		assert.Less(t, w.imports(source, "next", id).Upload.Sent, 100)
		assert.Empty(t, w.faults(source, a.Image("next").Disk.Image))
	})
	w.report("disk")
}

// zeros is a file that consists of zeros. changing becomes such a file in the next
// version of the disk.
const (
	zeros    = "var/lib/zeros"
	changing = "var/lib/changing"
)

// fill fills a file on a disk.
func (w *world) fill(path, file, from string) {
	w.t.Helper()
	_, code := lab.Disk(path).Sh(w.t, true, `dd if="$1" of="$ROOT/$2" bs=1M count=4 conv=notrunc status=none`, from, file)
	require.Zero(w.t, code)
}

// makeVolume writes what an encrypted volume of a snapshot holds.
func (w *world) makeVolume(a *account, id, path string) {
	w.t.Helper()
	content, err := a.ebs.Volume(id, true)
	require.NoError(w.t, err)
	f, err := os.Create(path)
	require.NoError(w.t, err)
	defer f.Close()
	_, err = io.CopyBuffer(f, content, make([]byte, disk.BlockSize))
	require.NoError(w.t, err)
}

// fillZeroBlocks fills the zero blocks of a snapshot with a byte on a volume. With
// garbage, an encrypted volume is as after an upload that leaves zero blocks out.
func (w *world) fillZeroBlocks(a *account, id, path string, with byte) {
	w.t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(w.t, err)
	defer f.Close()
	zero, fill := sha256.Sum256(make([]byte, disk.BlockSize)), bytes.Repeat([]byte{with}, disk.BlockSize)
	count := 0
	for index, sum := range a.ebs.Blocks(id) {
		if sum == zero {
			_, err := f.WriteAt(fill, int64(index)*disk.BlockSize)
			require.NoError(w.t, err)
			count++
		}
	}
	w.step("%d zero blocks of the snapshot are filled with %#x", count, with)
	require.NotZero(w.t, count)
}

// faults compares a volume with the disk that was uploaded: the bytes that are not
// free, the file system, and all files.
func (w *world) faults(source, volume string) []string {
	w.t.Helper()
	found := differentBlocks(w.t, source, volume)
	if out, err := exec.CommandContext(w.Ctx, "e2fsck", "-fn", volume+"?offset=1048576").CombinedOutput(); err != nil {
		found = append(found, fmt.Sprintf("e2fsck: %v: %.500s", err, out))
	}
	want, got := sums(w.t, source), sums(w.t, volume)
	for _, line := range want {
		if !slices.Contains(got, line) {
			found = append(found, "changed: "+line)
		}
	}
	if len(want) != len(got) {
		found = append(found, fmt.Sprintf("%d files, want %d", len(got), len(want)))
	}
	return found
}

// sums are the SHA-256 of all files of a disk.
func sums(t *testing.T, path string) []string {
	t.Helper()
	out, _ := lab.Disk(path).Sh(t, false, `cd "$ROOT" && find . -xdev -type f -print0 | sort -z | xargs -0 sha256sum`)
	return strings.Split(strings.TrimSpace(out), "\n")
}

// differentBlocks compares the bytes of the volume that are not free on the disk.
func differentBlocks(t *testing.T, source, volume string) (found []string) {
	t.Helper()
	original, err := disk.Open(source)
	require.NoError(t, err)
	defer original.Close()
	layout, err := original.Layout()
	require.NoError(t, err)
	copied, err := os.Open(volume)
	require.NoError(t, err)
	defer copied.Close()
	want, got := make([]byte, disk.BlockSize), make([]byte, disk.BlockSize)
	for index := range layout.Blocks() {
		at := index * disk.BlockSize
		n, err := original.ReadAt(want, at)
		if !errors.Is(err, io.EOF) {
			require.NoError(t, err)
		}
		_, err = copied.ReadAt(got, at)
		require.NoError(t, err)
		layout.ZeroFree(want[:n], at)
		layout.ZeroFree(got[:n], at)
		if !bytes.Equal(want[:n], got[:n]) {
			found = append(found, fmt.Sprintf("block %d differs", index))
		}
	}
	return found[:min(len(found), 20)]
}
