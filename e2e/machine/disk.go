package machine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"golang.org/x/sys/unix"
)

// A disk image here has a classic MBR, GRUB between it and the only partition,
// and that partition, of type Linux, from the first MiB to the end.
const (
	sectorSize     = 512
	partitionStart = 1 << 20
	mbrCodeSize    = 440
	mbrTable       = 446
	linuxPartition = 0x83
	bootable       = 0x80
)

// diskScript turns the tree at $TREE into the disk image $DISK. The file system
// is at least twice the size of its content, so that an instance has room; the
// file is sparse. The features are spelled out because the defaults of newer
// versions are beyond what GRUB 2.06 reads.
const diskScript = `
used=$(du -skx "$TREE" | cut -f1)
size=$((used * 2 > $MINIMUM ? used * 2 : $MINIMUM))
truncate -s $((size * 1024 + $OFFSET)) "$DISK"
mke2fs -q -F -t ext4 -L "$LABEL" -m 1 \
  -O none,has_journal,ext_attr,resize_inode,dir_index,filetype,extent,64bit,flex_bg,sparse_super,large_file,huge_file,dir_nlink,extra_isize,metadata_csum \
  -E offset=$OFFSET,root_owner=0:0 -d "$TREE" "$DISK" ${size}k
cat "$TREE/boot/grub/i386-pc/boot.img" > "$DISK.boot"
cat "$TREE/boot/grub/i386-pc/core.img" > "$DISK.core"
`

// minimumDisk is the least size of an image's file system in KiB: 4 GiB.
const minimumDisk = 4 << 20

// makeDisk runs a script that ends with diskScript, in a mount namespace of its
// own, and adds the boot loader that the tree brought along.
func makeDisk(ctx context.Context, script string, environment []string, tree, disk string) error {
	disk, err := filepath.Abs(disk)
	if err != nil {
		return fmt.Errorf("making the disk image: %w", err)
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	// With its first process all others end, and with them the mounts.
	cmd.SysProcAttr = &unix.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID,
		Pdeathsig:  unix.SIGKILL,
	}
	// Pdeathsig is sent when this thread ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.Env = append(environment,
		"TREE="+tree, "DISK="+disk, "LABEL="+base.RootLabel,
		fmt.Sprintf("OFFSET=%d", partitionStart), fmt.Sprintf("MINIMUM=%d", minimumDisk))
	out, err := cmd.CombinedOutput()
	if err == nil {
		err = installLoader(disk)
	} else {
		err = fmt.Errorf("%w: %s", errors.Join(context.Cause(ctx), err), strings.TrimSpace(string(out)))
	}
	for _, part := range []string{".boot", ".core"} {
		err = errors.Join(err, os.RemoveAll(disk+part))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("making the disk image: %w", err), os.RemoveAll(disk))
	}
	return nil
}

// installLoader writes the partition table, GRUB's boot.img and, right behind,
// its core.img: where boot.img as shipped expects it.
func installLoader(disk string) error {
	boot, err := os.ReadFile(disk + ".boot")
	if err != nil {
		return err
	}
	core, err := os.ReadFile(disk + ".core")
	if err != nil {
		return err
	}
	file, err := os.OpenFile(disk, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	head, err := diskHead(boot, core, info.Size())
	if err == nil {
		_, err = file.WriteAt(head, 0)
	}
	return errors.Join(err, file.Close())
}

// diskHead returns what precedes the partition.
func diskHead(boot, core []byte, size int64) ([]byte, error) {
	if len(boot) != sectorSize {
		return nil, fmt.Errorf("grub's boot.img has %d bytes, not a sector", len(boot))
	}
	if len(core) > partitionStart-sectorSize {
		return nil, fmt.Errorf("grub's core.img has %d bytes and does not fit before the partition", len(core))
	}
	head := make([]byte, sectorSize, sectorSize+len(core))
	copy(head, boot[:mbrCodeSize])
	entry := head[mbrTable:]
	entry[0] = bootable
	entry[4] = linuxPartition
	// No cylinders, heads, sectors: this is what says "beyond CHS".
	copy(entry[1:4], []byte{0xfe, 0xff, 0xff})
	copy(entry[5:8], []byte{0xfe, 0xff, 0xff})
	binary.LittleEndian.PutUint32(entry[8:], partitionStart/sectorSize)
	binary.LittleEndian.PutUint32(entry[12:], uint32((size-partitionStart)/sectorSize))
	head[510], head[511] = 0x55, 0xaa
	return append(head, core...), nil
}

// imageFormat is qemu's name for an image's format, by its file name.
func imageFormat(path string) string {
	if filepath.Ext(path) == ".qcow2" {
		return "qcow2"
	}
	return "raw"
}

// convert copies a disk image into another format, leaving out what is zero.
func convert(ctx context.Context, from, source, to, target string) error {
	cmd := exec.CommandContext(ctx, "qemu-img", "convert", "-f", from, "-O", to, source, target)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("converting the disk image to %s: %w: %s", to, err, strings.TrimSpace(string(out)))
	}
	return nil
}
