# shellcheck shell=sh
# Runs systemd-nspawn, again after each restart of the container. It runs in new namespaces but with
# the host's /proc, through which it reaches the lab's network namespace. systemd-nspawn leaves
# restarts to its service manager and exits with code 133, because of --keep-unit.
IFS=:
for group in $CGROUPS; do
  mkdir "$group"
done
unset IFS
mount -t proc proc /proc
mkdir -p /run/systemd/nspawn
mount -t tmpfs tmpfs /run/systemd/nspawn
mkdir -p "merged$SEED_FOLDER"
boot() {
  IFS=:
  for group in $CGROUPS; do
    mkdir "$group/$boots"
    echo 0 > "$group/$boots/cgroup.procs"
  done
  unset IFS
  exec systemd-nspawn "$@"
}
trap 'kill "$child"' TERM
boots=0
code=133
while [ "$code" = 133 ]; do
  boots=$((boots + 1))
  boot "$@" &
  child=$!
  # The signal ends wait before the container has ended.
  while code=0; wait "$child" || code=$?; kill -0 "$child" 2>/dev/null; do :; done
done
exit "$code"
