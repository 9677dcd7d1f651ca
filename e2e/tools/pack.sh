# shellcheck shell=sh
# Packs files of a module's folder $5, by the patterns that follow, and the programs of the folder $3 below $4 as the
# gzipped tar $1. The result depends only on names and contents, and on the time $2 that all members get. Upstream's own
# tarballs have the first owner on "./", and only there: root gives /opt/cni/bin to that owner when it unpacks a tarball
# over that folder (https://github.com/containernetworking/plugins/pull/1054).
set -e
final=$1 at=$2 programs=$3 below=$4 module=$5
shift 5
stage=$(mktemp -d "$final.XXXXXX")
trap 'rm -r "$stage"' EXIT
cd "$module"
for pattern; do
  for file in $pattern; do
    [ -e "$file" ] || { echo "the module has no $file" >&2; exit 1; }
    install -D -m 644 "$file" "$stage/files/$file"
  done
done
mkdir -p "$stage/files/$below"
install -m 755 "$programs"/* "$stage/files/$below"
cd "$stage/files"
pack() { tar --format=gnu --mtime="@$at" --no-recursion "$@" --file "$stage/tar"; }
pack --create --owner=runner:1001 --group=docker:1001 --mode=755 ./
find . -type f | LC_ALL=C sort | pack --append --owner=root:0 --group=root:0 --files-from=-
gzip -n < "$stage/tar" > "$final"
