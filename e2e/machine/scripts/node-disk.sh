# shellcheck shell=sh
# Mounts the machine's disk, for node.sh.
set -e
mount --make-rprivate /
cd "$FOLDER"
mount -t ext4 -o "loop,offset=$OFFSET" disk.raw root
