mkdir -p /var/fluent-bit/state /var/lib/tailscale
for each in fluent-bit=/var/fluent-bit/state/flb.db tailscaled=/var/lib/tailscale/tailscaled.state; do
echo before > "${each#*=}"
printf '[Service]\nExecStart=/bin/sleep infinity\nExecStop=/bin/sh -c "echo after > %s"\n' "${each#*=}" > /run/systemd/system/${each%=*}.service
done
printf '[Unit]\nAfter=late.service\n[Service]\nExecStart=/bin/sh -c "echo late > /var/fluent-bit/state/late; sleep infinity"\n' > /run/systemd/system/filebeat.service
printf '[Service]\nType=oneshot\nExecStart=/bin/sleep infinity\n' > /run/systemd/system/late.service
systemctl daemon-reload; systemctl start fluent-bit tailscaled; systemctl start --no-block late filebeat
