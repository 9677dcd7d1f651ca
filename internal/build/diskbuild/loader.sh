# Install the root's own boot loader for the root file system $UUID on $DEVICE. The
# EFI system partition gets the files in /boot/efi. Standard output says what is missing.
exec 3>&1 >&2
fail() { echo "$*" >&3; exit 1; }

kernel=
for file in /boot/vmlinu[zx]* /usr/lib/modules/*/vmlinu[zx]; do
  [ ! -s "$file" ] || kernel=$file
done
[ -n "$kernel" ] || fail "the base image has no kernel in /boot: install the distribution's kernel there first"

grub=
for name in grub grub2; do
  if command -v $name-mkimage && command -v $name-mkconfig; then grub=$name; fi
done
boots=
case $(uname -m) in aarch64) cpu=aa64 platform=arm64-efi ;; *) cpu=x64 platform=x86_64-efi ;; esac
fallback=/boot/efi/EFI/BOOT/BOOT$(echo $cpu | tr a-z A-Z).EFI

if [ -n "$grub" ]; then
  folder=/boot/$grub
  rm -f $folder/i386-pc/core.img
  mkdir -p $folder /boot/efi/EFI/BOOT /dev/disk/by-uuid
  # grub-mkconfig names the root by its UUID only if there is this link.
  ln -s "$DEVICE" /dev/disk/by-uuid/"$UUID"
  printf 'search --no-floppy --fs-uuid --set=root %s\nset prefix=($root)%s\n' "$UUID" $folder >/run/early.cfg
  for platform in i386-pc $platform; do
    from=/usr/lib/grub/$platform
    [ -e $from/moddep.lst ] || continue
    image=$folder/$platform/core.img first=biosdisk
    if [ $platform != i386-pc ]; then image=$fallback first=; fi
    [ $image != "$fallback" ] || [ ! -e "$fallback" ] || continue # the distribution's own, which is signed
    mkdir -p $folder/$platform
    cp $from/*.mod $from/*.lst $folder/$platform/
    [ -z "$first" ] || cp $from/boot.img $folder/$platform/
    $grub-mkimage -O $platform -d $from -c /run/early.cfg -p $folder -o $image \
      $first part_gpt part_msdos ext2 xfs search search_fs_uuid normal configfile
    boots=yes
  done
  echo 'configfile $prefix/grub.cfg' >>/run/early.cfg
  for file in /boot/efi/EFI/*/grub*.efi; do
    [ -e "$file" ] || continue
    cp /run/early.cfg "$(dirname "$file")/grub.cfg"
    boots=yes
  done
  [ -n "$boots" ] || fail "the base image has GRUB's programs but no GRUB in /usr/lib/grub: install a package such as grub-pc-bin or grub-efi-amd64-bin"
  $grub-mkconfig -o $folder/grub.cfg
  grep -q '^[^#]*linux\|blscfg' $folder/grub.cfg || fail "$grub-mkconfig finds no kernel: see $folder/grub.cfg of the base image"
  exit 0
fi

boot=/usr/lib/systemd/boot/efi/systemd-boot$cpu.efi
[ -e $boot ] || fail "the base image has no boot loader: install GRUB or systemd-boot there first"
mkdir -p /boot/efi/EFI/BOOT /boot/efi/EFI/systemd /boot/efi/loader/entries
cp $boot "$fallback"
cp $boot /boot/efi/EFI/systemd/
. /etc/os-release
for kernel in /boot/vmlinuz-*; do
  [ -s "$kernel" ] || fail "systemd-boot needs kernels as /boot/vmlinuz-*: the base image has $kernel"
  version=${kernel#/boot/vmlinuz-}
  cp "$kernel" /boot/efi/
  entry=/boot/efi/loader/entries/$version.conf
  printf 'title %s\nversion %s\nlinux /vmlinuz-%s\n' "${PRETTY_NAME:-Linux}" "$version" "$version" >"$entry"
  for initramfs in /boot/initrd.img-$version /boot/initramfs-$version.img; do
    [ -s "$initramfs" ] || continue
    cp "$initramfs" /boot/efi/
    echo "initrd /${initramfs#/boot/}" >>"$entry"
  done
  line=ro
  [ ! -s /etc/kernel/cmdline ] || line=$(cat /etc/kernel/cmdline)
  echo "options root=UUID=$UUID $line" >>"$entry"
done
