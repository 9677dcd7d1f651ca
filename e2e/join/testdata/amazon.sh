#!/bin/sh
set -eu
imds() {
  # The metadata service accepts only the newest token. The kubelet's plugin
  # requests tokens too.
  for attempt in 1 2 3 4 5 6 7 8 9; do
    token=$(curl -sf -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' http://169.254.169.254/latest/api/token) || continue
    curl -sf -H "X-aws-ec2-metadata-token: $token" "http://169.254.169.254/latest/$1" && return
  done
  return 1
}
ip=$(imds meta-data/local-ipv4)
name=$(imds meta-data/local-hostname)
id=$(imds dynamic/instance-identity/document | sed 's/.*"instanceId":"\([^"]*\)".*/\1/')
mkdir -p /etc/kubernetes/pki /etc/systemd/system/kubelet.service.d /etc/containerd
echo '{ca}' | base64 -d > /etc/kubernetes/pki/ca.crt
sed -i 's,MASTER_ENDPOINT,{endpoint},g; s,AWS_REGION,eu-west-1,g; s,CLUSTER_NAME,{cluster},g' /var/lib/kubelet/kubeconfig
sed -i 's|"cgroupDriver": "cgroupfs"|"cgroupDriver": "systemd", "clusterDNS": ["172.20.0.10"], "maxPods": 29, "providerID": "aws:///eu-west-1a/'"$id"'"|' /etc/kubernetes/kubelet/kubelet-config.json
sed -i 's,SANDBOX_IMAGE,{pause},g' /etc/eks/containerd/containerd-config.toml
cp /etc/eks/containerd/containerd-config.toml /etc/containerd/config.toml
sed -i 's/^\[plugins."io.containerd.grpc.v1.cri"\]$/&\nrestrict_oom_score_adj = true/' /etc/containerd/config.toml
cat > /etc/systemd/system/kubelet.service.d/10-kubelet-args.conf <<EOF
[Service]
Environment='KUBELET_ARGS=--node-ip=$ip --hostname-override=$name --v=2'
EOF
if [ -n '{extra}' ]; then
cat > /etc/systemd/system/kubelet.service.d/30-kubelet-extra-args.conf <<EOF
[Service]
Environment='KUBELET_EXTRA_ARGS={extra}'
EOF
fi
{cgroups}
cp /etc/eks/containerd/kubelet-containerd.service /etc/systemd/system/kubelet.service
systemctl daemon-reload
systemctl enable containerd
systemctl restart containerd
systemctl enable kubelet
systemctl start kubelet
