#!/bin/sh
# Install the root's own boot loader for the root file system $UUID on $DEVICE. The EFI
# system partition gets the files in /boot/efi. Standard output says what is missing.
# shellcheck disable=SC2016 # $root and $prefix are GRUB's
set -eu
exec 3>&1 >&2
fail() { echo "$*" >&3; exit 1; }

kernel=
for file in /boot/vmlinu[zx]* /usr/lib/modules/*/vmlinu[zx]; do
  if [ -s "$file" ]; then kernel=$file; fi
done
[ -n "$kernel" ] || fail "the base image has no kernel in /boot: install the distribution's kernel there first"

grub=
for name in grub grub2; do
  if command -v $name-mkimage && command -v $name-mkconfig; then grub=$name; fi
done
case $(uname -m) in
  aarch64) efi=arm64-efi fallback=BOOTAA64.EFI small=aa64 ;;
  *) efi=x86_64-efi fallback=BOOTX64.EFI small=x64 ;;
esac
fallback=/boot/efi/EFI/BOOT/$fallback
mkdir -p /boot/efi/EFI/BOOT

if [ -n "$grub" ]; then
  folder=/boot/$grub
  rm -f "$folder/i386-pc/core.img"
  # grub-mkconfig names the root by its UUID only if there is this link.
  mkdir -p /dev/disk/by-uuid
  ln -s "$DEVICE" "/dev/disk/by-uuid/$UUID"
  printf 'search --no-floppy --fs-uuid --set=root %s\nset prefix=($root)%s\n' "$UUID" "$folder" >/run/early.cfg
  make_image() { # platform, image, modules
    from=/usr/lib/grub/$1 platform=$1 image=$2
    shift 2
    mkdir -p "$folder/$platform"
    cp "$from"/*.mod "$from"/*.lst "$folder/$platform/"
    "$grub-mkimage" -O "$platform" -d "$from" -c /run/early.cfg -p "$folder" -o "$image" "$@" \
      part_gpt part_msdos ext2 xfs search search_fs_uuid normal configfile
  }
  boots=
  if [ -e /usr/lib/grub/i386-pc/boot.img ]; then
    make_image i386-pc /run/core.img biosdisk
    cp /usr/lib/grub/i386-pc/boot.img /run/core.img "$folder/i386-pc/"
    boots=yes
  fi
  # What is there is the distribution's own, which is signed.
  if [ ! -e "$fallback" ] && [ -e "/usr/lib/grub/$efi/moddep.lst" ]; then
    make_image "$efi" "$fallback"
    boots=yes
  fi
  echo 'configfile $prefix/grub.cfg' >>/run/early.cfg
  for file in /boot/efi/EFI/*/grub*.efi; do
    [ -e "$file" ] || continue
    cp /run/early.cfg "$(dirname "$file")/grub.cfg"
    boots=yes
  done
  [ -n "$boots" ] || fail "the base image has GRUB's programs but no GRUB in /usr/lib/grub: install a package such as" \
    "grub-pc-bin or grub-efi-amd64-bin"
  "$grub-mkconfig" -o "$folder/grub.cfg"
  grep -q '^[^#]*linux\|blscfg' "$folder/grub.cfg" || fail "$grub-mkconfig finds no kernel of the base image"
  exit 0
fi

boot=/usr/lib/systemd/boot/efi/systemd-boot$small.efi
[ -e "$boot" ] || fail "the base image has no boot loader: install GRUB or systemd-boot there first"
mkdir -p /boot/efi/EFI/systemd /boot/efi/loader/entries
cp "$boot" "$fallback"
cp "$boot" /boot/efi/EFI/systemd/
# shellcheck source=/dev/null
. /etc/os-release
for kernel in /boot/vmlinuz-*; do
  [ -s "$kernel" ] || fail "systemd-boot needs a kernel /boot/vmlinuz-*, which the base image lacks"
  version=${kernel#/boot/vmlinuz-}
  cp "$kernel" /boot/efi/
  entry=/boot/efi/loader/entries/$version.conf
  printf 'title %s\nversion %s\nlinux /vmlinuz-%s\n' "${PRETTY_NAME:-Linux}" "$version" "$version" >"$entry"
  for initramfs in "/boot/initrd.img-$version" "/boot/initramfs-$version.img"; do
    [ -s "$initramfs" ] || continue
    cp "$initramfs" /boot/efi/
    echo "initrd /${initramfs#/boot/}" >>"$entry"
  done
  line=ro
  if [ -s /etc/kernel/cmdline ]; then line=$(cat /etc/kernel/cmdline); fi
  echo "options root=UUID=$UUID $line" >>"$entry"
done
