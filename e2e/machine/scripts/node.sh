# shellcheck shell=sh disable=SC2013
# Becomes the machine's first process, after node-disk.sh and plug.sh. /proc and /sys show the
# host's kernel: parts outside the machine's own namespaces are read-only, and the three sysctls
# that a kubelet requires have the required values. Files in /run, which is not part of the disk,
# replace what the host does not permit.
while read -r name group; do
  mkdir "$group"
  if [ "$name" = unified-only ]; then
    for c in $(cat "${group%/*}/cgroup.controllers"); do echo "+$c" > "${group%/*}/cgroup.subtree_control" || :; done
  fi
  if [ "$name" = cpuset ]; then
    for f in cpuset.cpus cpuset.mems; do cat "${group%/*}/$f" > "$group/$f"; done
  fi
  echo 0 > "$group/cgroup.procs"
done < groups
exec unshare --cgroup sh -ec "$INSIDE"
