systemctl stop kubelet containerd
grep -ls '^# Written by eksnode init' /etc/systemd/system/*.mount | sort -r | while read -r unit; do
  systemctl disable --quiet --now "${unit##*/}"
  rm "$unit"
done
for array in $(find /dev -maxdepth 1 -name 'md[0-9]*'); do mdadm --quiet --stop "$array"; done
for disk in /dev/nvme[0-9]n1; do blkdiscard -fz "$disk"; done
systemctl daemon-reload
udevadm settle
