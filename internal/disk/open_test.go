package disk

import (
	"bytes"
	"encoding/binary"
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
	for name, c := range map[string]struct{ options, format string }{
		"raw":                  {"-O raw", Raw},
		"raw without holes":    {"-O raw -S 0", Raw},
		"fixed VHD":            {"-O vpc -o subformat=fixed,force_size=on", VHD},
		"qcow2":                {"-O qcow2", Qcow2},
		"qcow2 of version 2":   {"-O qcow2 -o compat=0.10", Qcow2},
		"qcow2, zlib":          {"-c -O qcow2", Qcow2},
		"qcow2, zstd":          {"-c -O qcow2 -o compression_type=zstd", Qcow2},
		"qcow2, 512 bytes":     {"-O qcow2 -o cluster_size=512", Qcow2},
		"qcow2, 2 MiB":         {"-O qcow2 -o cluster_size=2M", Qcow2},
		"qcow2, 2 MiB, zlib":   {"-c -O qcow2 -o cluster_size=2M", Qcow2},
		"qcow2, preallocated":  {"-O qcow2 -o preallocation=metadata", Qcow2},
		"qcow2, lazy":          {"-O qcow2 -o lazy_refcounts=on", Qcow2},
		"qcow2, refcounts":     {"-O qcow2 -o refcount_bits=1", Qcow2},
		"qcow2, no zeros kept": {"-O qcow2 -S 0", Qcow2},
	} {
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "image")
			sh(t, folder, `qemu-img convert -f raw $1 disk.raw "$2"`, c.options, to)
			d, err := Open(to)
			require.NoError(t, err)
			defer d.Close()
			assert.Equal(t, c.format, d.Format())
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
			if c.options != "-O raw -S 0" && !strings.Contains(c.options, "preallocation") && !strings.Contains(c.options, "-S 0") {
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
	for name, c := range map[string]struct{ script, want string }{
		"a.vmdk":      {`qemu-img convert -O vmdk disk.raw a.vmdk`, "the format VMDK is not supported; convert the image: qemu-img convert -f vmdk -O raw a.vmdk a.raw"},
		"stream.vmdk": {`qemu-img convert -O vmdk -o subformat=streamOptimized disk.raw stream.vmdk`, "the format VMDK is not supported; convert the image: qemu-img convert -f vmdk -O raw stream.vmdk stream.raw"},

		"dynamic.vhd":  {`qemu-img convert -O vpc disk.raw dynamic.vhd`, "the format dynamic VHD is not supported; convert the image: qemu-img convert -f vpc -O raw dynamic.vhd dynamic.raw"},
		"a.vhdx":       {`qemu-img convert -O vhdx disk.raw a.vhdx`, "the format VHDX is not supported; convert the image: qemu-img convert -f vhdx -O raw a.vhdx a.raw"},
		"a.vdi":        {`qemu-img convert -O vdi disk.raw a.vdi`, "the format VDI is not supported; convert the image: qemu-img convert -f vdi -O raw a.vdi a.raw"},
		"a.qed":        {`qemu-img convert -O qed disk.raw a.qed`, "the format QED is not supported; convert the image: qemu-img convert -f qed -O raw a.qed a.raw"},
		"a.qcow":       {`qemu-img convert -O qcow disk.raw a.qcow`, "the format qcow version 1 is not supported; convert the image: qemu-img convert -f qcow -O raw a.qcow a.raw"},
		"a.hds":        {`qemu-img convert -O parallels disk.raw a.hds`, "the format Parallels is not supported; convert the image: qemu-img convert -f parallels -O raw a.hds a.raw"},
		"image":        {`qemu-img convert -O vdi disk.raw image`, "the format VDI is not supported; convert the image: qemu-img convert -f vdi -O raw image image.raw"},
		"two words.vd": {`qemu-img convert -O vdi disk.raw "two words.vd"`, "the format VDI is not supported; convert the image: qemu-img convert -f vdi -O raw 'two words.vd' 'two words.raw'"},
		"disk.raw.gz":  {`gzip -k disk.raw`, "the format gzip is not supported; unpack the file first: gunzip -k disk.raw.gz"},
		"disk.raw.xz":  {`xz -0 -k disk.raw`, "the format xz is not supported; unpack the file first: unxz -k disk.raw.xz"},
		"disk.raw.zst": {`zstd -q disk.raw`, "the format zstd is not supported; unpack the file first: unzstd disk.raw.zst"},
		"a.ova":        {`tar -cf a.ova disk.raw`, "the format tar or OVA archive is not supported; unpack the file first: tar -xf a.ova, then convert the disk in it: qemu-img convert -f vmdk -O raw DISK.vmdk disk.raw"},
		"a.iso":        {`truncate -s 1M a.iso; printf CD001 | dd of=a.iso bs=1 seek=32769 conv=notrunc status=none`, "the format ISO 9660 is not supported; an installation medium is no disk: install a machine from it, and import the machine's disk"},
		"luks.qcow2":   {`qemu-img convert -O qcow2 disk.raw luks.qcow2; printf '\002' | dd of=luks.qcow2 bs=1 seek=35 conv=notrunc status=none`, "the qcow2 image is encrypted; convert the image with its secret: qemu-img convert --object secret,id=s,file=PASSWORD_FILE --image-opts driver=qcow2,file.filename=luks.qcow2,encrypt.key-secret=s -O raw disk.raw"},
		"data.qcow2":   {`qemu-img convert -O qcow2 -o data_file=data.raw disk.raw data.qcow2`, others("qcow2 image", "data.raw")},
		"child.qcow2":  {`qemu-img create -q -f qcow2 -b disk.raw -F raw child.qcow2`, others("qcow2 image", "disk.raw")},
		"trick.qcow2":  {`qemu-img create -q -f qcow2 -u -b "$(printf '/etc/shadow\033[2J')" -F raw trick.qcow2 1M`, others("qcow2 image", `/etc/shadow\x1b[2J`)},
		"long.qcow":    {`qemu-img create -q -f qcow -u -b /etc/shadow -F raw long.qcow 1M`, others("qcow version 1", "/etc/shadow")},
		"child.qed":    {`qemu-img create -q -f qed -u -b /etc/shadow -F raw child.qed 1M`, others("QED", "/etc/shadow")},
		"flat.vmdk":    {`qemu-img convert -O vmdk -o subformat=monolithicFlat disk.raw flat.vmdk`, others("VMDK descriptor", "flat-flat.vmdk")},
		"child.vmdk":   {`qemu-img convert -O vmdk disk.raw parent.vmdk; qemu-img create -q -f vmdk -b parent.vmdk -F vmdk child.vmdk`, others("VMDK", "parent.vmdk")},
		"long.qcow2":   {`qemu-img convert -O qcow2 -o extended_l2=on disk.raw long.qcow2`, "extended L2 entries in a qcow2 image are not supported; convert the image: qemu-img convert -f qcow2 -O raw long.qcow2 long.raw"},
		"dirty.qcow2":  {`qemu-img convert -O qcow2 disk.raw dirty.qcow2; printf '\001' | dd of=dirty.qcow2 bs=1 seek=79 conv=notrunc status=none`, "the qcow2 image is marked as dirty: a process still writes to the image, or crashed; shut the machine down, or repair the image: qemu-img check -r all dirty.qcow2"},
		"bad.qcow2":    {`qemu-img convert -O qcow2 disk.raw bad.qcow2; printf '\002' | dd of=bad.qcow2 bs=1 seek=79 conv=notrunc status=none`, "the qcow2 image is marked as corrupt; repair the image: qemu-img check -r all bad.qcow2"},
		"new.qcow2":    {`qemu-img convert -O qcow2 disk.raw new.qcow2; printf '\100' | dd of=new.qcow2 bs=1 seek=79 conv=notrunc status=none`, "the incompatible features 0x40 of the qcow2 image are not supported; convert the image: qemu-img convert -f qcow2 -O raw new.qcow2 new.raw"},
		"four.qcow2":   {`qemu-img convert -O qcow2 disk.raw four.qcow2; printf '\004' | dd of=four.qcow2 bs=1 seek=7 conv=notrunc status=none`, "the version 4 of qcow2 is not supported; convert the image: qemu-img convert -f qcow2 -O raw four.qcow2 four.raw"},
		"short.qcow2":  {`qemu-img convert -O qcow2 disk.raw short.qcow2; truncate -s -1M short.qcow2`, "the qcow2 image is truncated or damaged: a cluster ends at byte "},
		"table.qcow2":  {`qemu-img convert -O qcow2 disk.raw table.qcow2; truncate -s 200k table.qcow2`, "the qcow2 image is truncated or damaged: an L2 table ends at byte 327680, but the file has 204800 bytes; copy the file again, and check it: qemu-img check table.qcow2"},
		"first.qcow2":  {`qemu-img convert -O qcow2 disk.raw first.qcow2; truncate -s 100k first.qcow2`, "the qcow2 image is truncated or damaged: the L1 table ends at byte 196616, but the file has 102400 bytes; copy the file again, and check it: qemu-img check first.qcow2"},
		"header.qcow2": {`head -c 50 a.qcow > /dev/null 2>&1 || true; printf 'QFI\373\000\000\000\003' > header.qcow2`, "the qcow2 image is truncated: unexpected EOF in the header"},
		"zip.qcow2":    {`seq 500000 > numbers; qemu-img convert -c -f raw -O qcow2 numbers zip.qcow2; truncate -s 500k zip.qcow2`, "the qcow2 image is truncated or damaged: a compressed cluster ends at byte "},
		"cut.vhd":      {`qemu-img convert -O vpc -o subformat=fixed,force_size=on disk.raw cut.vhd; truncate -s -512 cut.vhd`, "the VHD is truncated: the footer at the end is missing; copy the file again, or rename the file to .raw if it is a raw disk"},
		"cut2.vhd":     {`qemu-img convert -O vpc disk.raw cut2.vhd; truncate -s -512 cut2.vhd`, "the VHD is truncated: its first sector is a copy of a footer, but the footer at the end is missing; copy the file again"},
		"sum.vhd":      {`qemu-img convert -O vpc -o subformat=fixed,force_size=on disk.raw sum.vhd; printf '\001' | dd of=sum.vhd bs=1 seek=5244500 conv=notrunc status=none`, "the VHD's footer is damaged: its checksum is "},
		"small.vhd":    {`qemu-img convert -O vpc -o subformat=fixed,force_size=on disk.raw whole.vhd; tail -c +513 whole.vhd > small.vhd`, "the VHD is truncated or damaged: its footer says that the disk has 5244416 bytes, but the file has 5243904; copy the file again"},
		"empty":        {`: > empty`, "empty: 0 bytes"},
		"a folder":     {`mkdir "a folder"`, "a folder is no disk image; give the path of the file in it"},
		"pipe":         {`mkfifo pipe`, "neither a regular file nor a block device"},
		"missing":      {`:`, "no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			sh(t, folder, c.script)
			t.Chdir(folder)
			d, err := Open(name)
			if !assert.Error(t, err) {
				d.Close()
				return
			}
			got, found := strings.CutPrefix(err.Error(), "opening the disk image "+name+": ")
			assert.True(t, found, "%v", err)
			if strings.HasSuffix(c.want, " ") {
				assert.Truef(t, strings.HasPrefix(got, c.want), "%s", got)
			} else {
				assert.Equal(t, c.want, got)
			}
		})
	}
}

// others is the error about an image that takes data from another file.
func others(what, name string) string {
	return "the " + what + " takes data from another file, \"" + name + "\"; a conversion copies that file: if it belongs to the disk, ask who made the image for one complete file"
}

// TestVHDWithTheOldFooter has the footer of 511 bytes.
func TestVHDWithTheOldFooter(t *testing.T) {
	folder := t.TempDir()
	_, content := sample(t, folder)
	sh(t, folder, `qemu-img convert -O vpc -o subformat=fixed,force_size=on disk.raw old.vhd; truncate -s -1 old.vhd`)
	d, err := Open(filepath.Join(folder, "old.vhd"))
	require.NoError(t, err)
	defer d.Close()
	assert.Equal(t, VHD, d.Format())
	assert.Equal(t, int64(len(content)), d.Size())
}

// TestTooLarge has the size of the largest volume, and one byte more.
func TestTooLarge(t *testing.T) {
	folder := t.TempDir()
	sh(t, folder, `qemu-img create -q -f qcow2 most.qcow2 65536G; qemu-img create -q -f qcow2 more.qcow2 65537G`)
	d, err := Open(filepath.Join(folder, "most.qcow2"))
	require.NoError(t, err)
	assert.Equal(t, int64(65536), d.SizeGiB())
	require.NoError(t, d.Close())
	_, err = Open(filepath.Join(folder, "more.qcow2"))
	assert.ErrorContains(t, err, "the qcow2 image has a disk of 70369817919488 bytes; an EBS volume has at most 65536 GiB")
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
	require.NoError(t, os.Truncate(name, 1000))
	_, err = d.ReadAt(make([]byte, 2000), 0)
	assert.EqualError(t, err, "reading the disk image "+name+" at byte 0: unexpected EOF")
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
