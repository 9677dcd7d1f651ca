root=$(mktemp -d); trap 'rm -r "$root"' EXIT
mkdir -p "$root/etc" "$root/srv/broken"; touch "$root/srv/broken/file"
printf 'ID=debian\nVERSION_ID=13\n' > "$root/etc/os-release"
truncate -s 16M "$1"; mke2fs -q -t ext4 -d "$root" "$1"
block=$(debugfs -R 'blocks /srv/broken' "$1" 2> /dev/null)
yes | head -c 64 | dd of="$1" bs=1 seek=$((block * $(dumpe2fs -h "$1" 2> /dev/null | sed -n 's/^Block size: *//p'))) conv=notrunc status=none
tune2fs -e panic "$1" > /dev/null
debugfs -w -R "$2" "$1" 2> /dev/null
