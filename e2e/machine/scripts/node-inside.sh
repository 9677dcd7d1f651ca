# shellcheck shell=sh disable=SC2034
# Continues in the namespace of the control groups, where the new groups are the roots of their
# hierarchies.
set -e
mount -t proc -o nosuid,nodev,noexec proc root/proc
mount --bind root/proc/sys/net root/proc/sys/net
mount --rbind root/proc/sys root/proc/sys
mount -o remount,bind,ro root/proc/sys
for sysctl in vm/overcommit_memory:1 kernel/panic:10 kernel/panic_on_oops:1; do
  echo "${sysctl#*:}" > "sysctl-${sysctl##*/}"
  mount --bind "sysctl-${sysctl##*/}" "root/proc/sys/${sysctl%:*}"
done
cat /proc/sys/kernel/random/uuid > boot-id # by which a journal knows its boots
mount --bind boot-id root/proc/sys/kernel/random/boot_id
[ ! -e root/proc/sysrq-trigger ] || mount --bind /dev/null root/proc/sysrq-trigger
mount -t sysfs -o ro,nosuid,nodev,noexec sysfs root/sys
if grep -q '^unified-only ' groups; then
  mount -t cgroup2 cgroup2 root/sys/fs/cgroup
else
  mount -t tmpfs -o mode=755 tmpfs root/sys/fs/cgroup
  while read -r name group; do
    mkdir "root/sys/fs/cgroup/$name"
    case "$name" in
    unified) mount -t cgroup2 cgroup2 root/sys/fs/cgroup/unified ;;
    systemd) mount -t cgroup -o none,name=systemd cgroup root/sys/fs/cgroup/systemd ;;
    *) mount -t cgroup -o "$name" cgroup "root/sys/fs/cgroup/$name" ;;
    esac
  done < groups
fi
mount -t tmpfs -o mode=755,nosuid tmpfs root/dev
mkdir root/dev/pts root/dev/shm root/dev/mqueue
for device in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0 kmsg:1:3 console:1:3; do
  IFS=:
  set -- $device
  unset IFS
  mknod -m 666 "root/dev/$1" c "$2" "$3"
done
mount --bind console.log root/dev/console
: > root/dev/ttyS0
mount --bind "$SERIAL" root/dev/ttyS0
mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts root/dev/pts
ln -s pts/ptmx root/dev/ptmx
ln -s /proc/self/fd root/dev/fd
for n in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${n%:*}" "root/dev/${n#*:}"; done
mount -t tmpfs -o nosuid,nodev tmpfs root/dev/shm
mount -t tmpfs -o mode=755,nosuid,nodev tmpfs root/run
cp -r run/. root/run/
mkdir -p "root$SEED_FOLDER"
mount --bind seed "root$SEED_FOLDER"
cd root
pivot_root . mnt
umount -l /mnt
mount --make-rshared / # as systemd does on a machine: see mount_namespaces(7)
exec env -i container=eksnode-lab PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  setpriv --bounding-set=-sys_module,-sys_time --inh-caps=-all /sbin/init --log-target=console SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1
