sed -i -e 's,MASTER_ENDPOINT,https://0123456789ABCDEF0123456789ABCDEF.gr7.eu-central-1.eks.amazonaws.com,' \
	-e 's,CLUSTER_NAME,old-cluster,' -e 's,AWS_REGION,eu-central-1,' /var/lib/kubelet/kubeconfig
python3 - <<'END'
import json
name = "/etc/kubernetes/kubelet/kubelet-config.json"
config = json.load(open(name))
config["clusterDNS"] = ["10.100.0.10"]
config["maxPods"] = 29
config["providerID"] = "aws:///eu-central-1a/i-0123456789abcdef0"
config["kubeReserved"] = {"cpu": "70m", "memory": "574Mi"}
json.dump(config, open(name, "w"), indent=2)
END
sed -i 's,SANDBOX_IMAGE,602401143452.dkr.ecr.eu-central-1.amazonaws.com/eks/pause:3.10,' /etc/eks/containerd/containerd-config.toml
cp /etc/eks/containerd/containerd-config.toml /etc/containerd/config.toml
echo CA > /etc/kubernetes/pki/ca.crt
mkdir -p /var/lib/kubelet/pki /var/lib/kubelet/pods/0a1b/volumes/kubernetes.io~projected/token /var/lib/kubelet/plugins_registry
echo CERT > /var/lib/kubelet/pki/kubelet-client-2026-11-20-10-00-00.pem
ln -s kubelet-client-2026-11-20-10-00-00.pem /var/lib/kubelet/pki/kubelet-client-current.pem
echo TOKEN > /var/lib/kubelet/pods/0a1b/volumes/kubernetes.io~projected/token/token
echo '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}' > /var/lib/kubelet/cpu_manager_state
echo '{"policyName":"None","machineState":{},"checksum":4047769151}' > /var/lib/kubelet/memory_manager_state
mkdir -p /etc/systemd/system/kubelet.service.d /var/lib/cni/networks/aws /var/log/pods/0a1b
echo '[Service]' > /etc/systemd/system/kubelet.service.d/10-kubelet-args.conf
echo 'Environment=KUBELET_EXTRA_ARGS=--node-labels=old=yes' | cat /etc/systemd/system/kubelet.service.d/10-kubelet-args.conf - > /etc/systemd/system/kubelet.service.d/30-kubelet-extra-args.conf
echo '{}' > /etc/cni/net.d/10-aws.conflist
echo lease > /var/lib/cni/networks/aws/10.0.0.7
echo log > /var/log/pods/0a1b/0.log
echo NODE_IP=10.0.0.7 > /etc/eks/kubelet/environment
echo 'token: secret' > /root/.bash_history
systemctl daemon-reload
systemctl enable kubelet.service 2>/dev/null
