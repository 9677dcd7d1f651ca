//go:build e2e

package kills_test

import (
	"testing"
)

// nodeConfig is the instance's user data.
const nodeConfig = `apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: first, apiServerEndpoint: "https://10.77.0.1:6443", certificateAuthority: Y2E=, cidr: 10.100.0.0/16}
  kubelet: {config: {maxPods: 42}, flags: ["--node-labels=team=a"]}
  containerd: {config: "[debug]\n  level = \"warn\"\n"}
`

// localCtr precedes containerd's own ctr in the path. It lists the pause image
// after a pull, because there is no registry.
const localCtr = `mkdir -p /usr/local/bin
cat > /usr/local/bin/ctr <<'END'
#!/bin/sh
case "$*" in
*" list "*) test ! -e /var/lib/pulled || cat /var/lib/pulled ;;
*" pull "*) cat /run/eksnode/registries/*/hosts.toml > /dev/null && for image; do :; done && echo "$image" > /var/lib/pulled ;;
esac
END
chmod 755 /usr/local/bin/ctr
`

// used leaves state of builders, users and pods on a node.
const used = `rm /usr/local/bin/ctr /var/lib/pulled
systemctl stop kubelet containerd
mkdir -p /var/lib/kubelet/pki /var/lib/kubelet/pods/uid/volumes/secret /etc/cni/net.d /var/lib/cni/networks/net /var/lib/cloud/instances/i-1 /home/admin/.ssh /root/.ssh /var/log/pods/x
grep -q ^admin: /etc/passwd || echo 'admin:x:1000:1000::/home/admin:/bin/sh' >> /etc/passwd
echo KEY > /var/lib/kubelet/pki/kubelet-client-1.pem
ln -s kubelet-client-1.pem /var/lib/kubelet/pki/kubelet-client-current.pem
echo SECRET > /var/lib/kubelet/pods/uid/volumes/secret/token
echo '{}' > /var/lib/kubelet/cpu_manager_state
echo '{}' > /etc/cni/net.d/10-aws.conflist
echo pod > /var/lib/cni/networks/net/10.0.0.1
echo secret > /var/lib/cloud/instances/i-1/user-data.txt
ln -s instances/i-1 /var/lib/cloud/instance
echo KEY | tee /etc/ssh/ssh_host_ed25519_key > /etc/ssh/ssh_host_rsa_key
echo builder | tee /root/.ssh/authorized_keys > /home/admin/.ssh/authorized_keys
echo history > /root/.bash_history
echo old > /etc/hostname
echo '127.0.1.1 old' >> /etc/hosts
echo '/swapfile none swap sw 0 0' >> /etc/fstab
echo memory > /swapfile
echo log | tee /var/log/messages /var/log/messages-1 > /var/log/pods/x/0.log
for i in 1 2 3 4 5 6 7 8 9; do echo x > /tmp/packer-$i; done
`

// acts are the commands in order. Each starts from the result of an earlier
// one: a machine is provisioned, joins, is used, is scrubbed, and instances of
// it boot.
func (w *world) acts(t *testing.T) []*act {
	t.Helper()
	provision := &act{
		name: "provision", from: &start{layers: w.base}, ready: ":",
		args: []string{command, "provision", "--kubernetes-version", kubernetes, "--source-url", "http://" + assets, "--allow-http",
			"--versions", "ecr-credential-provider=" + provider, "--versions", "cni-plugins=" + cniPlugins,
			"--sysctls", "vm.max_map_count=262144", "--sbom"},
	}
	provisioned := after(provision.from, provision.undisturbed(t, w))

	user := w.boot(t, provisioned.layers)
	user.sh(localCtr)
	user.sh(endpoint + " eksnode init")
	user.sh(used)
	scrub := &act{name: "scrub", from: after(provisioned, user), ready: "systemctl start containerd kubelet", args: []string{"eksnode", "scrub", "--yes"}}
	image := after(scrub.from, scrub.undisturbed(t, w))

	boot := func(name string, args ...string) *act {
		a := &act{name: name, from: image, ready: localCtr, args: args}
		a.undisturbed(t, w)
		return a
	}
	return []*act{
		provision, scrub,
		boot("first_boot_by_NodeConfig", "env", endpoint, "eksnode", "init"),
		boot("first_boot_by_bootstrap.sh", "env", endpoint, "/etc/eks/bootstrap.sh", "first", "--apiserver-endpoint", "https://10.77.0.1:6443",
			"--b64-cluster-ca", "Y2E=", "--dns-cluster-ip", "10.100.0.10", "--kubelet-extra-args", "--node-labels=team=a"),
	}
}
