set -eu
disk=$1 script=$2 R=$(mktemp -d)
shift 2
mount -o loop,offset=1048576 "$disk" "$R"
for p; do
  rm -rf "$R$p"
  if [ -e "$ROOT$p" ] || [ -L "$ROOT$p" ]; then
    mkdir -p "$R${p%/*}"
    cp -a "$ROOT$p" "$R$p"
  fi
done
eval "$script"
umount "$R"
rmdir "$R"
