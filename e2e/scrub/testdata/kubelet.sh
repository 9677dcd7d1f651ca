cat > /etc/kubernetes/kubelet-standalone.yaml <<'EOF'
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
staticPodPath: /etc/kubernetes/manifests
cgroupDriver: systemd
failSwapOn: false
enableControllerAttachDetach: false
podLogsDir: /var/log/pods
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cpuManagerPolicy: static
reservedSystemCPUs: "0"
EOF
cat > /etc/systemd/system/kubelet.service <<'EOF'
[Unit]
After=containerd.service
[Service]
ExecStart=/usr/bin/kubelet --config=/etc/kubernetes/kubelet-standalone.yaml --hostname-override=old-node --v=1
KillMode=process
Restart=on-failure
RestartSec=2
[Install]
WantedBy=multi-user.target
EOF
cat > /etc/kubernetes/manifests/old.yaml <<'EOF'
apiVersion: v1
kind: Pod
metadata: {name: old, namespace: default, annotations: {note: {canary}}}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  containers:
  - name: app
    image: {image}
    imagePullPolicy: Never
    args: ["{canary}"]
    env: [{name: SECRET, value: {canary}}]
    volumeMounts:
    - {name: memory, mountPath: /memory}
    - {name: scratch, mountPath: /scratch}
    - {name: etc, mountPath: /host-etc}
    - {name: words, mountPath: /words}
  volumes:
  - {name: memory, emptyDir: {medium: Memory}}
  - {name: scratch, emptyDir: {}}
  - {name: etc, hostPath: {path: /etc}}
  - name: words
    downwardAPI: {items: [{path: note, fieldRef: {fieldPath: "metadata.annotations['note']"}}]}
EOF
systemctl daemon-reload
systemctl enable kubelet
