#!/bin/sh
# The files that Amazon Linux 2's script edits with sed.
set -- /var/lib/kubelet/kubeconfig /etc/kubernetes/kubelet/kubelet-config.json /etc/eks/containerd/containerd-config.toml
rm -r /etc/eks/eksnode
cat > /var/lib/kubelet/kubeconfig <<'EOF'
# Of the platform team's images; nodes fill it in.
apiVersion: v1
kind: Config
clusters:
- cluster:
    certificate-authority: /etc/kubernetes/pki/ca.crt
    server: MASTER_ENDPOINT
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
        - 'CLUSTER_NAME'
        - --region
        - AWS_REGION
EOF
sed -i 's|"clusterDomain"|"containerLogMaxFiles": 7,\n  "clusterDomain"|' /etc/kubernetes/kubelet/kubelet-config.json
sed -i '1i # Of the platform team.\n' /etc/eks/containerd/containerd-config.toml
mkdir /root/maker && cp --parents "$@" /root/maker
