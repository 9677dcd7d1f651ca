package disk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// sample makes a raw disk of 5 MiB and 1536 bytes: random bytes, a hole, zeros,
// random bytes.
func sample(t *testing.T, folder string) (string, []byte) {
	t.Helper()
	name := sparse(t, filepath.Join(folder, "disk.raw"), 5*mib+1536)
	p := garbage()
	put(t, name, 0, p[:mib/2])
	put(t, name, 3*mib, make([]byte, mib/2))
	put(t, name, 4*mib+100, p)
	content := []byte(testkit.Content(t, name))
	return name, content
}

// TestImagesReadAsTheDisk converts a disk with qemu-img to every form that is
// supported.
func TestImagesReadAsTheDisk(t *testing.T) {
	folder := t.TempDir()
	raw, content := sample(t, folder)
	for name, c := range table[[2]string](t, "images.yaml") {
		options, format := c[0], c[1]
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "image")
			sh(t, folder, `qemu-img convert -f raw $1 disk.raw "$2"; [ "$3" != "fixed VHD, old footer" ] || truncate -s -1 "$2"`, options, to, name)
			d, err := Open(to)
			require.NoError(t, err)
			defer d.Close()
			assert.Equal(t, format, d.Format())
			assert.Equal(t, to, d.Path())
			assert.Equal(t, int64(len(content)), d.Size())
			assert.Equal(t, int64(1), d.SizeGiB())
			got := bytes.Repeat([]byte{1}, len(content)+3000)
			n, err := d.ReadAt(got, 0)
			require.NoError(t, err)
			assert.Equal(t, len(got), n)
			assert.True(t, bytes.Equal(append(bytes.Clone(content), make([]byte, 3000)...), got))
			// Parts that begin and end inside clusters.
			for _, off := range []int64{1, 511, 65535, 3*mib - 7, 4*mib + 99, 5*mib + 1535} {
				part := make([]byte, 70001)
				_, err := d.ReadAt(part, off)
				require.NoError(t, err)
				assert.True(t, bytes.Equal(got[off:min(int(off)+70001, len(got))], part[:min(70001, len(got)-int(off))]), "%d", off)
			}
			if !strings.Contains(options, "preallocation") && !strings.Contains(options, "-S 0") {
				assert.True(t, d.Zero(2*mib, 64<<10))
			}
			assert.False(t, d.Zero(0, 1))
			assert.True(t, d.Zero(int64(len(content)), mib))
			assert.NoError(t, d.Check())
		})
	}
	assert.FileExists(t, raw)
}

// TestTheVolumeEndsAfterTheDisk reads around the end of the volume.
func TestTheVolumeEndsAfterTheDisk(t *testing.T) {
	name := sparse(t, filepath.Join(t.TempDir(), "disk.raw"), gib+1)
	put(t, name, gib, []byte("x"))
	d, err := Open(name)
	require.NoError(t, err)
	defer d.Close()
	assert.Equal(t, int64(2), d.SizeGiB())
	p := []byte("....")
	n, err := d.ReadAt(p, gib-1)
	require.NoError(t, err)
	assert.Equal(t, "\x00x\x00\x00", string(p[:n]))
	_, err = d.ReadAt(p, 2*gib-4)
	require.NoError(t, err)
	n, err = d.ReadAt(p, 2*gib-2)
	assert.Equal(t, 2, n)
	assert.Equal(t, io.EOF, err)
	n, err = d.ReadAt(p, 2*gib)
	assert.Equal(t, 0, n)
	assert.Equal(t, io.EOF, err)
}

// TestOtherFormatsAreRefused converts a disk with other programs. The header
// says LUKS by a patch: qemu-img encrypts only where it can measure CPU time.
func TestOtherFormatsAreRefused(t *testing.T) {
	folder := t.TempDir()
	sample(t, folder)
	for name, c := range table[script](t, "refused.yaml") {
		t.Run(name, func(t *testing.T) {
			sh(t, folder, c.Script)
			t.Chdir(folder)
			d, err := Open(name)
			if !assert.Error(t, err) {
				d.Close()
				return
			}
			got, found := strings.CutPrefix(err.Error(), "opening the disk image "+name+": ")
			assert.True(t, found, "%v", err)
			if strings.HasSuffix(c.Want, " ") {
				assert.Truef(t, strings.HasPrefix(got, c.Want), "%s", got)
			} else {
				assert.Equal(t, c.Want, got)
			}
		})
	}
}

// TestTooLarge has the size of the largest volume.
func TestTooLarge(t *testing.T) {
	folder := t.TempDir()
	sh(t, folder, `qemu-img create -q -f qcow2 most.qcow2 65536G`)
	d, err := Open(filepath.Join(folder, "most.qcow2"))
	require.NoError(t, err)
	assert.Equal(t, int64(65536), d.SizeGiB())
	require.NoError(t, d.Close())
}

// TestHostileQcow2 has tables that name each other.
func TestHostileQcow2(t *testing.T) {
	folder := t.TempDir()
	name := filepath.Join(folder, "a.qcow2")
	sh(t, folder, `qemu-img create -q -f qcow2 a.qcow2 100G; qemu-io -c "write 0 64k" -f qcow2 a.qcow2`)
	content := []byte(testkit.Content(t, name))
	l1 := int64(binary.BigEndian.Uint64(content[40:]))
	for i := range int64(200) {
		put(t, name, l1+8*i, content[l1:l1+8])
	}
	_, err := Open(name)
	assert.ErrorContains(t, err, "the qcow2 image is damaged: several L1 entries have the same L2 table; check the image: qemu-img check ")
	put(t, name, 36, []byte{0xff, 0xff, 0xff, 0xff})
	_, err = Open(name)
	assert.ErrorContains(t, err, "the qcow2 image is truncated or damaged: the L1 table ends at byte ")
}

// Older versions of qemu end the file with the disk's last byte, not with its last cluster.
func TestTheLastClusterMayBeShort(t *testing.T) {
	folder := t.TempDir()
	name := filepath.Join(folder, "a.qcow2")
	sh(t, folder, `qemu-img create -q -f qcow2 -o cluster_size=2M a.qcow2 5M
qemu-io -f qcow2 -c "write -P 7 0 1" -c "write -P 7 4M 1M" a.qcow2; truncate -s 13M a.qcow2`)
	d, err := Open(name)
	require.NoError(t, err)
	defer d.Close()
	last := make([]byte, 1)
	_, err = d.ReadAt(last, 5*mib-1)
	require.NoError(t, err)
	assert.Equal(t, []byte{7}, last)
	require.NoError(t, os.Truncate(name, 13*mib-1))
	_, err = Open(name)
	assert.ErrorContains(t, err, "a cluster ends at byte 14680064, but the file has 13631487 bytes")

	// The last sector of a compressed cluster may be cut off, but no more.
	sh(t, folder, `for i in 1 2 3; do head -c 40000 /dev/urandom; head -c 25536 /dev/zero; done > half.raw
qemu-img convert -c -O qcow2 half.raw a.qcow2; truncate -s -1024 a.qcow2`)
	_, err = Open(name)
	require.ErrorContains(t, err, "a compressed cluster ends at byte ")
	var end, length int64
	_, after, _ := strings.Cut(err.Error(), "a compressed cluster ends at byte ")
	_, err = fmt.Sscanf(after, "%d, but the file has %d bytes", &end, &length)
	require.NoError(t, err)
	assert.Greater(t, end, length)
}

// TestChangedFilesAreFound changes a file after it was opened.
func TestChangedFilesAreFound(t *testing.T) {
	folder := t.TempDir()
	name, content := sample(t, folder)
	d, err := Open(name)
	require.NoError(t, err)
	defer d.Close()
	require.NoError(t, d.Check())
	require.NoError(t, os.Truncate(name, int64(len(content))+1))
	assert.EqualError(t, d.Check(), "the size of the disk image "+name+" changed from 5244416 to 5244417 bytes; wait for the program that writes this file, then start again")
	require.NoError(t, os.Truncate(name, 4*mib+500))
	n, err := d.ReadAt(make([]byte, 2000), 4*mib-1000) // a hole, and data behind it
	assert.EqualError(t, err, "reading the disk image "+name+" at byte 4194304: unexpected EOF")
	assert.Equal(t, 1500, n)
	require.NoError(t, os.Truncate(name, int64(len(content))))
	then := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	require.NoError(t, os.Chtimes(name, then, then))
	assert.EqualError(t, d.Check(), "the disk image "+name+" was changed at 2026-02-03T04:05:06Z, after it was opened; wait for the program that writes this file, then start again")
}

// TestImagesInUseAreRefused has writers: a process, a loop device, and qemu.
func TestImagesInUseAreRefused(t *testing.T) {
	folder := t.TempDir()
	name, _ := sample(t, folder)
	writer, err := os.OpenFile(name, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = Open(name)
	assert.EqualError(t, err, "opening the disk image "+name+": in use: another process has the file open for writing (see fuser -v "+name+"); wait until it ends")
	require.NoError(t, writer.Close())

	sh(t, folder, `qemu-img convert -O qcow2 disk.raw a.qcow2`)
	qemu := exec.CommandContext(t.Context(), "qemu-io", "-f", "qcow2", "a.qcow2")
	qemu.Dir = folder
	in, err := qemu.StdinPipe()
	require.NoError(t, err)
	out, err := qemu.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, qemu.Start())
	_, err = io.WriteString(in, "length\n")
	require.NoError(t, err)
	_, err = out.Read(make([]byte, 100)) // the prompt: the image is open
	require.NoError(t, err)
	_, err = Open(filepath.Join(folder, "a.qcow2"))
	assert.EqualError(t, err, "opening the disk image "+filepath.Join(folder, "a.qcow2")+": in use: qemu has the image open for writing; shut the machine down first")
	require.NoError(t, in.Close())
	_, _ = io.Copy(io.Discard, out)
	require.NoError(t, qemu.Wait())
	d, err := Open(filepath.Join(folder, "a.qcow2"))
	require.NoError(t, err)
	require.NoError(t, d.Close())
}

// TestBlockDevices opens a loop device, and a mounted one.
func TestBlockDevices(t *testing.T) {
	folder := t.TempDir()
	disk := sparse(t, filepath.Join(folder, "disk.raw"), 48*mib)
	device := strings.TrimSpace(sh(t, folder, `mke2fs -q -F -t ext4 "$1"; losetup -f --show "$1"`, disk))
	t.Cleanup(func() { assert.NoError(t, exec.Command("losetup", "-d", device).Run()) })
	d, layout := laidOut(t, device)
	assert.Equal(t, int64(48*mib), d.Size())
	assert.Equal(t, Raw, d.Format())
	assert.Equal(t, "ext4", layout.Partitions[0].Kind)
	assert.NotZero(t, layout.Partitions[0].Free)
	assert.NoError(t, d.Check())
	require.NoError(t, d.Close())
	mounted := t.TempDir()
	require.NoError(t, exec.Command("mount", device, mounted).Run())
	t.Cleanup(func() { assert.NoError(t, exec.Command("umount", mounted).Run()) })
	_, err := Open(device)
	assert.EqualError(t, err, "opening the disk image "+device+": the device is in use, mounted or part of another device (see lsblk "+device+"); unmount it first")
}
