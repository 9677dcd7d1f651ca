//go:build e2e

package firstboot_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
)

// joinedByAmazon leaves a machine in the state after a join by Amazon Linux 2's
// own script and its kubelet: the kubelet is enabled, with another name,
// address and cluster.
const joinedByAmazon = `systemctl enable kubelet.service 2>/dev/null
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
sync`

// testLeftoverState boots instances from an image that was not scrubbed.
func testLeftoverState(t *testing.T, w *world, first, second *cluster) {
	builder := w.instance(t, "i-earlier", nil)
	builder.booted()
	builder.sh(joinedByAmazon, first.ca, first.endpoint)
	image := filepath.Join(w.Folder(), "earlier.raw")
	builder.CaptureTo(t, image)
	boot := func(t *testing.T, id, userData string) *node {
		return w.launch(t, machine.Config{Kind: machine.Node, Image: image, InstanceID: id, UserData: []byte(userData)})
	}

	t.Run("NodeConfig", func(t *testing.T) {
		n := boot(t, "i-healed", nodeConfig(second, ""))
		n.joining(second)
		assert.False(t, first.askedBy(n), "the kubelet must never contact the old cluster")
		assert.Equal(t, generated(n), n.kubeletArguments())
		journal := n.sh("journalctl --boot --unit=eksnode-config --output=cat")
		for _, name := range []string{
			"/etc/systemd/system/kubelet.service", "/etc/systemd/system/sandbox-image.service",
			"/etc/systemd/system/kubelet.service.d/10-kubelet-args.conf", "/etc/systemd/system/kubelet.service.d/30-kubelet-extra-args.conf",
			"/var/lib/kubelet/cpu_manager_state", "/var/lib/kubelet/allocated_pods_state", "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint",
		} {
			assert.Contains(t, journal, "leftover-state: remove "+name+" (")
		}
		assert.Equal(t, "200", n.sh(`tr '\0' '\n' </proc/$(systemctl show --property=MainPID --value kubelet)/environ | sed -n 's/^GOGC=//p'`), "a user's drop-in must stay in effect")
		assert.Equal(t, "disabled\ndisabled", n.sh("systemctl is-enabled kubelet containerd || true"))
		n.again("eksnode init --config-source imds://user-data --config-source file:///etc/eks/nodeadm.d/")
		n.reboots(second)
	})
	t.Run("bootstrap.sh", func(t *testing.T) {
		call := fmt.Sprintf("/etc/eks/bootstrap.sh %s --apiserver-endpoint %s --b64-cluster-ca %s --dns-cluster-ip 10.100.0.10 --kubelet-extra-args --reserved-cpus=0", second.name, second.endpoint, second.base64CA())
		n := boot(t, "i-healed-script", "#!/bin/bash -xe\n"+call+"\n")
		n.joining(second)
		assert.Equal(t, scripted(n, "--reserved-cpus=0"), n.kubeletArguments())
		config := n.sh("cat /etc/kubernetes/kubelet/kubelet-config.json")
		assert.Contains(t, config, `"maxPods": 29`)
		assert.NotContains(t, config, "systemReservedCgroup")
		n.again(call)
	})
}
