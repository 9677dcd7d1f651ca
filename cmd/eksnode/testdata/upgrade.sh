#!/bin/sh
# Copies a disk, upgrades a package of the copy, and changes other files.
set -e
cp --sparse=always "$1" "$2"
mount -o loop,offset=1048576 "$2" /mnt
cd /mnt
printf two >usr/bin/containerd; echo PermitRootLogin no >>etc/ssh/sshd_config; rm -r etc/old var/lib/dpkg/info/old.list; mkdir -p opt/tree/deep; touch opt/tree/deep/file
printf x >"$(printf 'opt/\033[31mred\n')"; chmod 600 opt/file
sed -i 's/^Version: 1.7.1/Version: 1.7.2/; /^Package: old/,$d' var/lib/dpkg/status; printf 'Package: runc\nStatus: install ok installed\nVersion: 1.2\n' >>var/lib/dpkg/status
printf '/usr/bin/runc\n' >var/lib/dpkg/info/runc.list; touch usr/bin/runc
cd /; umount /mnt
