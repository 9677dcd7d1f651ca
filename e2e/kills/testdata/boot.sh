set -e
for group in $GROUPS_OF_MACHINE; do
  mkdir "$group"
  echo 0 > "$group/cgroup.procs"
done
mount -t proc proc /proc
mkdir -p /run/systemd/nspawn
mount -t tmpfs tmpfs /run/systemd/nspawn
exec systemd-nspawn "$@"
