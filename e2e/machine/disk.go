package machine

import (
	"context"
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

// partitionStart is the start of the only partition of a disk image, in bytes.
const partitionStart = 1 << 20

// diskScript turns the tree at $TREE into the disk image $DISK: a classic MBR,
// then GRUB, then one partition up to the end. The boot loader is the tree's
// own. Its core.img follows boot.img directly, where boot.img expects it. The
// file system is at least twice the size of its content, so that an instance
// has room; the file is sparse. The script lists the file system features
// because GRUB 2.06 cannot read the defaults of newer versions. A tree without a
// boot loader makes a disk for containers only.
const diskScript = `
used=$(du -skx "$TREE" | cut -f1)
size=$((used * 2 > $MINIMUM ? used * 2 : $MINIMUM))
truncate -s $((size * 1024 + $OFFSET)) "$DISK"
mke2fs -q -F -t ext4 -L "$LABEL" -m 1 \
  -O none,has_journal,ext_attr,resize_inode,dir_index,filetype,extent,64bit,flex_bg,sparse_super,large_file,huge_file,dir_nlink,extra_isize,metadata_csum \
  -E offset=$OFFSET,root_owner=0:0 -d "$TREE" "$DISK" ${size}k
printf 'label: dos\nlabel-id: 0\nstart=%d, type=83, bootable\n' $((OFFSET / 512)) | sfdisk --quiet --wipe=never "$DISK"
[ -e "$TREE/boot/grub/i386-pc/boot.img" ] || exit 0
dd if="$TREE/boot/grub/i386-pc/boot.img" of="$DISK" bs=440 count=1 conv=notrunc status=none
dd if="$TREE/boot/grub/i386-pc/core.img" of="$DISK" bs=512 seek=1 conv=notrunc status=none
`

// minimumDisk is the minimum size of an image's file system in KiB: 4 GiB.
const minimumDisk = 4 << 20

// MakeDisk turns a tree, such as that of a base system, into a disk image.
func MakeDisk(ctx context.Context, tree, disk string) error {
	return makeDisk(ctx, "set -e\n"+diskScript, os.Environ(), tree, disk)
}

// makeDisk runs a script that ends with diskScript, in a mount namespace of its
// own.
func makeDisk(ctx context.Context, script string, environment []string, tree, disk string) error {
	disk, err := filepath.Abs(disk)
	if err != nil {
		return fmt.Errorf("making the disk image: %w", err)
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	// All other processes and the mounts end with the first process.
	cmd.SysProcAttr = &unix.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID,
		Pdeathsig:  unix.SIGKILL,
	}
	// The kernel sends Pdeathsig when this thread ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.Env = append(environment,
		"TREE="+tree, "DISK="+disk, "LABEL="+base.RootLabel,
		fmt.Sprintf("OFFSET=%d", partitionStart), fmt.Sprintf("MINIMUM=%d", minimumDisk))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return errors.Join(fmt.Errorf("making the disk image: %w: %s", errors.Join(context.Cause(ctx), err), strings.TrimSpace(string(out))), os.RemoveAll(disk))
	}
	return nil
}

// imageFormat returns qemu's name for an image's format, by its file name.
func imageFormat(path string) string {
	if filepath.Ext(path) == ".qcow2" {
		return "qcow2"
	}
	return "raw"
}

// convert copies a disk image into another format, without zero blocks.
func convert(ctx context.Context, from, source, to, target string) error {
	cmd := exec.CommandContext(ctx, "qemu-img", "convert", "-f", from, "-O", to, source, target)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("converting the disk image to %s: %w: %s", to, err, strings.TrimSpace(string(out)))
	}
	return nil
}
