systemctl stop kubelet
eksnode scrub --dry-run --output json > /run/plan.json || [ $? = 1 ]
sed -n '/"verb": "\(remove\|empty\)"/{n;s/.*"target": "\(.*\)",/\1/p}' /run/plan.json | grep -v -e /var/log/journal -e /var/lib/containerd -e /etc/ssh/ -e /etc/sudoers.d -e /etc/containerd -e /etc/systemd | while read -r path; do
  find "$path" -xdev -type f
done | sort -u > /run/planted
while read -r file; do echo "$word" >> "$file"; done < /run/planted
sync
wc -l < /run/planted
