# shellcheck shell=sh
# Copies the captured disk $CAPTURED to $DISK in the form of Debian's images for clouds: a GPT with the root as
# partition 1, a BIOS boot partition 14 and an EFI system partition 15, each with GRUB. The types of the partitions are
# those of a root for x86-64, of a BIOS boot partition and of an EFI system partition
# (https://uapi-group.org/specifications/specs/discoverable_partitions_specification/).
set -e
mib=$((1 << 20))
size=$(stat -c %s "$CAPTURED")
boot=$(((size + OFFSET - 1) / OFFSET * OFFSET)) # where the partitions behind the root begin
esp=$((boot + mib))
folder=$(mktemp -d "$DISK.XXXXXX")
trap 'rm -r "$folder"' EXIT
cp --sparse=always --reflink=auto "$CAPTURED" "$DISK"
truncate -s $((esp + 65 * mib)) "$DISK" # the last MiB is for the copy of the GPT
dd if=/dev/zero of="$DISK" bs="$OFFSET" count=1 conv=notrunc status=none
printf '%s : start=%d, size=%d, type=%s\n' \
  1 $((OFFSET / 512)) $(((size - OFFSET) / 512)) 4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709 \
  14 $((boot / 512)) $((mib / 512)) 21686148-6449-6E6F-744E-656564454649 \
  15 $((esp / 512)) $((64 * mib / 512)) C12A7328-F81F-11D2-BA4B-00A0C93EC93B |
  sed '1i label: gpt' | sfdisk --quiet --wipe=never "$DISK"

# Both loaders go on with the configuration in the root file system.
cat > "$folder/early.cfg" <<END
search --no-floppy --label $LABEL --set=root
set prefix=(\$root)/boot/grub
configfile \$prefix/grub.cfg
END
loader() {
  grub-mkimage -O "$1" -c "$folder/early.cfg" -p /boot/grub -o "$folder/$1" "$2" \
    part_gpt ext2 search search_label normal configfile linux echo serial terminal test
}

# boot.img goes to the first sector, and core.img to the BIOS boot partition. As grub-bios-setup does, this writes into
# each where the next part is (grub-core/boot/i386/pc/boot.S and diskboot.S): 64 bits, little-endian.
sector() {
  for shift in 0 8 16 24 32 40 48 56; do
    printf '%b' "\\0$(printf %o $(($1 >> shift & 255)))"
  done
}
loader i386-pc biosdisk
[ "$(stat -c %s "$folder/i386-pc")" -le "$mib" ]
cp /usr/lib/grub/i386-pc/boot.img "$folder/boot.img"
sector $((boot / 512)) | dd of="$folder/boot.img" bs=1 seek=92 conv=notrunc status=none
sector $((boot / 512 + 1)) | dd of="$folder/i386-pc" bs=1 seek=500 conv=notrunc status=none
dd if="$folder/boot.img" of="$DISK" bs=440 count=1 conv=notrunc status=none
dd if="$folder/i386-pc" of="$DISK" bs="$mib" seek=$((boot / mib)) conv=notrunc status=none

# Firmware without boot variables searches there.
loader x86_64-efi fat
mkfs.vfat -F 32 -C "$folder/esp" $((64 * 1024)) > /dev/null
mmd -i "$folder/esp" ::/EFI ::/EFI/BOOT
mcopy -i "$folder/esp" "$folder/x86_64-efi" ::/EFI/BOOT/BOOTX64.EFI
dd if="$folder/esp" of="$DISK" bs="$mib" seek=$((esp / mib)) conv=notrunc,sparse status=none
