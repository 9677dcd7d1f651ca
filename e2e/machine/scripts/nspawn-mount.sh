# shellcheck shell=sh
# Mounts the machine's disk at ./merged, in the mount namespace of its shell. Relative paths need no
# quoting within the options. The loop mount uses an offset, because device nodes of partitions need
# udev.
set -e
mount --make-rprivate /
cd "$FOLDER"
if [ -n "$IMAGE" ]; then
  mount -t ext4 -o "loop,ro,noload,offset=$OFFSET" "$IMAGE" lower
else
  mount --bind "$ROOT" lower
fi
mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work overlay merged
