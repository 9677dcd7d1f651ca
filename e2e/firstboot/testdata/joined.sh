systemctl enable kubelet.service 2>/dev/null
mkdir -p /etc/eks/containerd /etc/systemd/system/kubelet.service.d /etc/kubernetes/pki /var/lib/kubelet/pki /var/lib/kubelet/device-plugins
cat > /etc/systemd/system/sandbox-image.service <<'EOF'
[Unit]
Description=pull sandbox image defined in containerd config.toml
After=containerd.service
Requires=containerd.service

[Service]
Type=oneshot
ExecStart=/etc/eks/containerd/pull-sandbox-image.sh

[Install]
WantedBy=multi-user.target
EOF
cat > /etc/systemd/system/kubelet.service <<'EOF'
[Unit]
Description=Kubernetes Kubelet
After=containerd.service sandbox-image.service
Requires=containerd.service sandbox-image.service

[Service]
Slice=runtime.slice
ExecStart=/usr/bin/kubelet --cloud-provider=external \
    --config /etc/kubernetes/kubelet/kubelet-config.json \
    --kubeconfig /var/lib/kubelet/kubeconfig \
    --container-runtime-endpoint unix:///run/containerd/containerd.sock \
    $KUBELET_ARGS $KUBELET_EXTRA_ARGS
Restart=on-failure
RestartSec=5
KillMode=process

[Install]
WantedBy=multi-user.target
EOF
cat > /etc/systemd/system/kubelet.service.d/10-kubelet-args.conf <<'EOF'
[Service]
Environment='KUBELET_ARGS=--node-ip=10.0.9.9 --hostname-override=ip-10-0-9-9.eu-west-1.compute.internal --v=2'
EOF
cat > /etc/systemd/system/kubelet.service.d/30-kubelet-extra-args.conf <<'EOF'
[Service]
Environment='KUBELET_EXTRA_ARGS=--node-labels=cluster=earlier --reserved-cpus=0'
EOF
printf '[Service]\nEnvironment=GOGC=200\n' > /etc/systemd/system/kubelet.service.d/50-mine.conf
echo '%s' > /etc/kubernetes/pki/ca.crt
sed -i 's,MASTER_ENDPOINT,%s,; s,CLUSTER_NAME,earlier,; s,AWS_REGION,eu-west-1,' /var/lib/kubelet/kubeconfig
sed -i 's|^{|{"providerID": "aws:///eu-west-1a/i-earlier", "maxPods": 737, "systemReservedCgroup": "/system",|' /etc/kubernetes/kubelet/kubelet-config.json
echo '{"policyName":"none","defaultCpuSet":"0-63","checksum":1}' > /var/lib/kubelet/cpu_manager_state
echo '{"data":' > /var/lib/kubelet/allocated_pods_state
echo '{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{"example.com/phantom":["one"]}},"Checksum":1}' > /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint
systemctl daemon-reload
systemctl enable kubelet.service sandbox-image.service 2>/dev/null
sync
