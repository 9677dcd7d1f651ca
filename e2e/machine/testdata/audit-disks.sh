#!/busybox sh
export PATH=/bin HOME=/ TMPDIR=/tmp
/busybox mkdir -p /bin /dev /proc /sys /tmp /mnt
/busybox --install -s /bin
mount -t devtmpfs dev /dev; mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t tmpfs tmp /tmp
insmod /loop.ko
for disk in clean dirty; do
  /eksnode audit --disk /$disk.raw --output json > /report
  echo "$disk: exit code $?"; sed -n 's/^ *"\(result\|error\)"/&/p' /report
done
mount -t ext4 -o ro,noload /clean.raw /mnt
ls /mnt/srv/broken
echo "the kernel survived"
reboot -f
