(cd ../..; go build -o "$0/command" ./cmd/eksnode)
cd "$0"
cat > eksnode <<'END'
#!/bin/sh -e
if [ "$1" = build ]; then
  while [ "$1" != --image ]; do shift; done
  exec cp --sparse=always "${0%/*}/disk.raw" "$2"
fi
exec "${0%/*}/command" "$@"
END
chmod 755 eksnode
mkdir -p root/etc/eks/eksnode; : > root/etc/machine-id
printf 'ID=debian\nVERSION_ID="13"\n' > root/etc/os-release
printf '{"schema": "eksnode.image/v1", "distro": "debian", "arch": "amd64", "kubernetes_version": "1.34.4", "assets": [{"id": "kubelet", "version": "1.34.4"}]}' > root/etc/eks/eksnode/manifest.json
truncate -s 60M part; mkfs.ext4 -q -O ^has_journal -d root part; truncate -s 64M disk.raw
printf 'label: gpt\nstart=2048, size=122880, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709\n' | sfdisk -q disk.raw
dd if=part of=disk.raw bs=1M seek=1 conv=notrunc,sparse status=none
printf '\353\143\220 GRUB ' | dd of=disk.raw conv=notrunc status=none
