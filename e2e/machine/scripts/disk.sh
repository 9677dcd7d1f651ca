# shellcheck shell=sh
# Turns the tree at $TREE into the disk image $DISK: a classic MBR, then GRUB, then one partition up
# to the end. The boot loader is the tree's own. Its core.img follows boot.img directly, where
# boot.img expects it. The file system is at least twice the size of its content, so that an
# instance has room; the file is sparse. The features of the file system are listed because GRUB
# 2.06 cannot read the defaults of newer versions. A tree without a boot loader makes a disk for
# containers only.
set -e
used=$(du -skx "$TREE" | cut -f1)
size=$((used * 2 > MINIMUM ? used * 2 : MINIMUM))
truncate -s $((size * 1024 + OFFSET)) "$DISK"
mke2fs -q -F -t ext4 -L "$LABEL" -m 1 \
  -O none,has_journal,ext_attr,resize_inode,dir_index,filetype,extent,64bit,flex_bg,sparse_super,large_file,huge_file,dir_nlink,extra_isize,metadata_csum \
  -E "offset=$OFFSET,root_owner=0:0" -d "$TREE" "$DISK" ${size}k
printf 'label: dos\nlabel-id: 0\nstart=%d, type=83, bootable\n' $((OFFSET / 512)) | sfdisk --quiet --wipe=never "$DISK"
[ -e "$TREE/boot/grub/i386-pc/boot.img" ] || exit 0
dd if="$TREE/boot/grub/i386-pc/boot.img" of="$DISK" bs=440 count=1 conv=notrunc status=none
dd if="$TREE/boot/grub/i386-pc/core.img" of="$DISK" bs=512 seek=1 conv=notrunc status=none
