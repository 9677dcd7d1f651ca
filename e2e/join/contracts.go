package join

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// concession is the part of containerd's configuration that a host needs which
// may not lower its processes' OOM score.
const concession = "[plugins.\"io.containerd.grpc.v1.cri\"]\nrestrict_oom_score_adj = true\n"

// openFiles is how many files a container's process may open: what EKS gives it,
// or what this host may give.
func openFiles() uint64 {
	const usual = 1 << 20
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return usual
	}
	return min(usual, limit.Max)
}

// needsCgroupV1 says whether a kubelet must be told that it may run here: from 1.35 on
// it refuses hosts with cgroup v1, as the tests' may be.
func needsCgroupV1() bool {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return false
	}
	_, version, err := tools.Find(tools.NameKubelet, "")
	return err == nil && !strings.HasPrefix(version, "1.34.")
}

// allowCgroupV1 does so in the kubelet's template.
func allowCgroupV1() string {
	if !needsCgroupV1() {
		return ""
	}
	return `sed -i '0,/{/s//{"failCgroupV1": false,/' /etc/kubernetes/kubelet/kubelet-config.json` + "\n"
}

// NodeConfig is the user data of an instance that joins by Amazon Linux 2023's
// contract.
func (c *Cluster) NodeConfig() []byte {
	var text bytes.Buffer
	const boundary = "==NODE=="
	fmt.Fprintf(&text, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=%q\n\n--%[1]s\nContent-Type: application/node.eks.aws\n\n", boundary)
	kubelet := ""
	if needsCgroupV1() {
		kubelet = "  kubelet: {config: {failCgroupV1: false}}\n"
	}
	fmt.Fprintf(&text, `---
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
%s  cluster:
    name: %s
    apiServerEndpoint: %s
    certificateAuthority: %s
    cidr: %s
  containerd:
    config: |
      %s
    baseRuntimeSpec:
      process:
        rlimits:
        - {type: RLIMIT_NOFILE, soft: %d, hard: %[7]d}
--%s--
`, kubelet, c.Name, c.Endpoint(), base64.StdEncoding.EncodeToString(c.CA()), ServiceCIDR,
		strings.ReplaceAll(strings.TrimSpace(concession), "\n", "\n      "), openFiles(), boundary)
	return text.Bytes()
}

// concessionFile is where a script writes containerd's template with the
// concession; it is not on the disk.
const concessionFile = "/run/containerd-lab.toml"

const makeConcession = `sed 's/^\[plugins."io.containerd.grpc.v1.cri"\]$/&\nrestrict_oom_score_adj = true/' /etc/eks/containerd/containerd-config.toml > ` + concessionFile + "\n"

// Arguments is the user data of an instance that joins by Amazon Linux 2's
// contract: a script that calls /etc/eks/bootstrap.sh, which is eksnode.
func (c *Cluster) Arguments() []byte {
	return []byte("#!/bin/sh\nset -eu\n" + allowCgroupV1() + makeConcession + fmt.Sprintf("/etc/eks/bootstrap.sh %s --apiserver-endpoint %s --b64-cluster-ca %s --dns-cluster-ip 172.20.0.10 --containerd-config-file %s\n",
		c.Name, c.Endpoint(), base64.StdEncoding.EncodeToString(c.CA()), concessionFile))
}

// AmazonScript is user data that joins as Amazon Linux 2's own bootstrap.sh does,
// in the steps that matter to whoever captures the machine afterwards: it fills
// templates in with sed, in place, copies a unit, enables the kubelet and starts
// it. It is no copy of that script; extra are the kubelet's extra arguments.
func (c *Cluster) AmazonScript(extra string) []byte {
	return []byte(strings.NewReplacer(
		"{cluster}", c.Name, "{endpoint}", c.Endpoint(), "{ca}", base64.StdEncoding.EncodeToString(c.CA()),
		"{region}", region, "{zone}", zone, "{pause}", PauseImage(), "{extra}", extra, "{cgroups}\n", allowCgroupV1(),
	).Replace(amazonScript))
}

const amazonScript = `#!/bin/sh
set -eu
imds() {
  # The service knows only the last token, and the kubelet's plugin asks for some.
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
sed -i 's,MASTER_ENDPOINT,{endpoint},g; s,AWS_REGION,{region},g; s,CLUSTER_NAME,{cluster},g' /var/lib/kubelet/kubeconfig
sed -i 's|"cgroupDriver": "cgroupfs"|"cgroupDriver": "systemd", "clusterDNS": ["172.20.0.10"], "maxPods": 29, "providerID": "aws:///{zone}/'"$id"'"|' /etc/kubernetes/kubelet/kubelet-config.json
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
`

// AmazonUnit is the unit that the script copies; it lies in the image at
// /etc/eks/containerd/kubelet-containerd.service.
const AmazonUnit = `[Unit]
Description=Kubernetes Kubelet
After=containerd.service
Requires=containerd.service

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
`
