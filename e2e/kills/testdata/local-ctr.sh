mkdir -p /usr/local/bin
cat > /usr/local/bin/ctr <<'END'
#!/bin/sh
case "$*" in
*" list "*) test ! -e /var/lib/pulled || cat /var/lib/pulled ;;
*" pull "*) cat /run/eksnode/registries/*/hosts.toml > /dev/null && for image; do :; done && echo "$image" > /var/lib/pulled ;;
esac
END
chmod 755 /usr/local/bin/ctr
