package diagnose

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// state are files that show a cause, and the place of the evidence.
var states = []struct {
	cause, evidence string
	files           []string // names and texts
}{
	{"template", "kubeconfig.yaml:2: ", []string{"kubelet/kubeconfig.yaml", "clusters:\n    server: https://MASTER_ENDPOINT\n"}},
	{"no-kubeconfig", "no line has", []string{"var/lib/kubelet/kubeconfig", "clusters: []\n# server: https://a\n"}},
	{"captured-node", "says https://ABC.gr7", []string{
		"var/lib/kubelet/kubeconfig", "    server: https://ABC.gr7.eu-west-1.eks.amazonaws.com\n",
		"var/lib/cloud/instance/user-data.txt", "#!/bin/bash\n/etc/eks/bootstrap.sh a --apiserver-endpoint https://DEF.gr7.eu-west-1.eks.amazonaws.com\n"}},
	{"captured-node", "says i-0000000000000000a, and", []string{
		"kubelet/config.json", `{"providerID": "aws:///eu-west-1a/i-0000000000000000a"}`,
		"system/instance-id.txt", "i-0000000000000000b\n"}},
	{"dns", "resolv.conf: no line has", []string{"networking/resolv.conf", "search ec2.internal\n#nameserver 10.0.0.2\n"}},
	{"node-network", "ip_-o_addr: no line has", []string{"sos_commands/networking/ip_-o_addr",
		"1: lo    inet 127.0.0.1/8 scope host lo\n2: eth0    inet6 fe80::1/64 scope link\n"}},
	{"node-network", "iproute.txt: no line has", []string{"networking/iproute.txt",
		"10.0.1.0/24 dev eth0 proto kernel scope link src 10.0.1.2\n"}},
	{"cgroup-driver", "says systemd, and", []string{
		"containerd/containerd-config.txt", "            SystemdCgroup = true\n", "kubelet/config.json", `{"cgroupDriver": "cgroupfs"}`}},
	{"cri-plugin", "config.toml:1: ", []string{"etc/containerd/config.toml", `disabled_plugins = ["cri"]` + "\n"}},
	{"runtime-endpoint", "kubelet_service.txt:2: ", []string{
		"kubelet/kubelet_service.txt", "[Service]\nExecStart=/usr/bin/kubelet --container-runtime-endpoint=unix:///var/run/dockershim.sock\n"}},
	{"kubelet-flags", "10-kubelet-args.conf:2: ", []string{
		"etc/systemd/system/kubelet.service.d/10-kubelet-args.conf", "[Service]\nEnvironment='KUBELET_ARGS=--cloud-provider=aws'\n"}},
	{"disk-errors", "mounts.txt:1: ", []string{"storage/mounts.txt", "/dev/nvme1n1 on /var/lib/containerd type xfs (ro,noatime)\n"}},
	{"file-system", "mounts:1: ", []string{"proc/mounts", "tmpfs /var/lib/kubelet tmpfs rw,size=1g 0 0\n"}},
	{"disk-full", "mounts.txt:2: ", []string{
		"storage/mounts.txt", "/dev/loop2       98M   98M     0 100% /snap/core/1\n/dev/nvme0n1p1   20G   20G   20K 100% /\n"}},
	{"swap", "swaps:2: ", []string{"proc/swaps", "Filename Type Size Used Priority\n/dev/dm-1                               partition\t8388604\t0\t-2\n"}},
	{"kernel-settings", "sysctl_all.txt:1: ", []string{"sysctls/sysctl_all.txt", "net.ipv4.ip_forward = 0\n"}},
	{"clock", "timedatectl:2: ", []string{"sos_commands/systemd/timedatectl", "               Local time: Thu\nSystem clock synchronized: no\n"}},
	{"arguments", "user-data.txt:2: ", []string{"var/lib/cloud/instance/user-data.txt", "#!/bin/bash\n/etc/eks/bootstrap.sh a --kubelet-extra-arg x\n"}},
	{"node-config", "user-data.txt:5: ", []string{"var/lib/cloud/instance/user-data.txt",
		"apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster: {name: a}\n  kubelets: {}\n"}},
}

// The files of an archive show causes, except on a node that joined.
func TestFilesOfAMachineShowCauses(t *testing.T) {
	shown := map[string]bool{}
	for _, one := range states {
		log := []string{"kubelet/kubelet.log", "kubelet[7]: all is well\n"}
		r, wrong := looked(t, file(t, "a.tar", tarred(t, append(log, one.files...)...)))
		assert.Empty(t, wrong, one.cause)
		require.NotEmpty(t, r.Findings, one.cause)
		assert.Equal(t, one.cause, r.Findings[0].Rule.ID)
		assert.Contains(t, strings.Join(r.Findings[0].Evidence, "\n"), one.evidence)
		assert.NotEqual(t, Certain, r.Findings[0].Certainty, one.cause)
		log[1] = goodStart
		r, _ = looked(t, file(t, "b.tar", tarred(t, append(log, one.files...)...)))
		assert.Equal(t, Joined, r.Result(), one.cause)
		shown[one.cause] = true
	}
	for _, f := range stateFiles() {
		assert.True(t, shown[f.cause], f.cause)
	}
}

// Files of a good node show none.
func TestFilesOfAGoodMachineShowNothing(t *testing.T) {
	r, wrong := looked(t, file(t, "a.tar", tarred(t, "kubelet/kubelet.log", "kubelet[7]: all is well\n",
		"kubelet/kubeconfig.yaml", "    server: https://abc.gr7.eu-west-1.eks.amazonaws.com\n",
		"var/lib/cloud/instance/user-data.txt", "#!/bin/bash\n/etc/eks/bootstrap.sh a --apiserver-endpoint https://ABC.gr7.eu-west-1.eks.amazonaws.com\n",
		"networking/ifconfig.txt", "eth0: flags=4163<UP>  mtu 9001\n        inet 10.0.1.2  netmask 255.255.255.0\n",
		"networking/iproute.txt", "default via 10.0.1.1 dev eth0 proto dhcp src 10.0.1.2 metric 512\n",
		"networking/resolv.conf", "nameserver 10.0.0.2\n", "kubelet/config.json", `{"cgroupDriver": "systemd", "providerID": "aws:///eu-west-1a/i-0000000000000000a"}`,
		"system/instance-id.txt", "i-0000000000000000a\n",
		"containerd/containerd-config.txt", "disabled_plugins = []\n  SystemdCgroup = true\n", "sysctls/sysctl_all.txt", "net.ipv4.ip_forward = 1\n",
		"storage/mounts.txt", "/dev/nvme0n1p1 on / type xfs (rw,noatime)\n/dev/nvme0n1p1   20G   2G   18G 10% /\n",
		"kubelet/kubelet_service.txt", "ExecStart=/usr/bin/kubelet --container-runtime-endpoint=unix:///run/containerd/containerd.sock\n")))
	assert.Empty(t, wrong)
	assert.Empty(t, r.Findings)
}

// The rows of the audit about settings find the causes of the same name.
func TestSettingsOfAMachineShowCauses(t *testing.T) {
	for name, want := range map[string]struct{ text, cause string }{
		"etc/sysctl.d/99-cis.conf":                {"net.ipv4.ip_forward = 0\n", "kernel-settings"},
		"etc/fstab":                               {"/dev/nvme1n1 /opt xfs defaults,noexec 0 0\n", "may-not-run"},
		"etc/systemd/resolved.conf.d/strict.conf": {"[Resolve]\nDNSSEC=yes\n", "dns"},
		"etc/containerd/config.toml":              {"disabled_plugins = [\"cri\"]\n", "cri-plugin"},
	} {
		root := t.TempDir()
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(want.text), 0o644))
		h, err := host.Mounted(root)
		require.NoError(t, err)
		s := NewSearch(context.Background())
		require.NoError(t, s.Machine(t.Context(), h, root))
		i := slices.IndexFunc(s.Report().Findings, func(f Finding) bool { return f.Rule.ID == want.cause })
		require.GreaterOrEqual(t, i, 0, "%s: %v", name, s.stated)
		assert.Contains(t, s.Report().Findings[i].Evidence[0], filepath.Join(root, name))
		require.NoError(t, s.Log(Log{"kubelet", strings.NewReader(goodStart)}))
		assert.Equal(t, Joined, s.Report().Result(), name)
		require.NoError(t, h.Close())
	}
}
