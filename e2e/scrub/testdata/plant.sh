c={canary}
mkdir -p /etc/cni/net.d /var/lib/cni/results /etc/kubernetes/pki /etc/eks /var/lib/kubelet/pki /etc/kubernetes/kubelet /root/.aws /root/.kube /etc/iptables
echo "#!/bin/sh" > /etc/eks/bootstrap.sh
for f in /etc/cni/net.d/10-aws.conflist /var/lib/cni/results/old /etc/kubernetes/pki/ca.crt /etc/kubernetes/admin.conf \
  /var/lib/kubelet/pki/kubelet-client-current.pem /var/lib/kubelet/config.json /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint \
  /var/lib/kubelet/memory_manager_state /root/.aws/credentials /root/.kube/config /root/.bash_history /home/admin/.bash_history \
  /tmp/script.sh /var/tmp/token /var/lib/systemd/random-seed /etc/machine-info /var/log/old.log /var/log/old.log.1 \
  /etc/systemd/system/kubelet.service.d/30-kubelet-extra-args.conf /var/lib/dhcp/dhclient.leases; do
  mkdir -p "$(dirname "$f")"
  echo "$c" >> "$f"
done
cat > /var/lib/kubelet/kubeconfig <<EOF
apiVersion: v1
kind: Config
clusters:
- cluster:
    certificate-authority: /etc/kubernetes/pki/ca.crt
    server: https://$c.gr7.us-east-1.eks.amazonaws.com
  name: kubernetes
contexts:
- context: {cluster: kubernetes, user: kubelet}
  name: kubelet
current-context: kubelet
users:
- name: kubelet
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      command: /usr/bin/aws-iam-authenticator
      args:
      - token
      - -i
      - $c
      - --region
      - us-east-1
EOF
for dir in /var/lib/kubelet/pods /var/lib/cloud/instances /var/lib/cloud/data /var/log/pods; do
  find "$dir" -xdev -type f -exec sh -c 'for f; do echo "$0" >> "$f"; done' "$c" {} +
done
echo "$c" > "$(ls -d /var/lib/kubelet/pods/*/volumes/kubernetes.io~empty-dir/scratch | head -1)/file"
echo "127.0.1.1 $c" >> /etc/hosts
echo "ssh-ed25519 AAAA $c" >> /root/.ssh/authorized_keys
hostnamectl set-hostname "$c"
logger -t old "$c"
ctr -n k8s.io leases create --id "$c" >/dev/null
ctr -n k8s.io run -d --env SECRET="$c" --label note="$c" {image} old-run /bin/sh -c 'exec tail -f /dev/null' "$c" >/dev/null
journalctl --flush --sync
sync
