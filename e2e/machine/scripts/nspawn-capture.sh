# shellcheck shell=sh
# Leaves out the mount point of the instance data, unless the machine's source had it.
[ -e "lower$SEED_FOLDER" ] || rmdir "merged$SEED_FOLDER" 2>/dev/null || :
[ -e "lower${SEED_FOLDER%/*}" ] || rmdir "merged${SEED_FOLDER%/*}" 2>/dev/null || :
