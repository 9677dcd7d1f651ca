package provisioner

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// Every node's own settings, and settings with good reasons, are accepted.
func TestAcceptedSysctls(t *testing.T) {
	all := map[string]string{
		"net.core.somaxconn": "4096", "vm.max_map_count": "262144", "net.ipv4.conf.all.rp_filter": "1", "net.ipv6.conf.all.forwarding": "0", "net.ipv6.conf.all.disable_ipv6": "1",
		"net.ipv4.tcp_rmem": "4096\t87380  6291456", "net.ipv4.ip_local_port_range": "1024 65535", "kernel.panic": "0xA", "user.max_user_namespaces": "0",
		"net.netfilter.nf_conntrack_max": "0", "kernel.core_pattern": "|/bin/false %p", "net.ipv4.tcp_congestion_control": "bbr", "fs.file-max": "9223372036854775807",
		"net.ipv4.ip_local_reserved_ports": "2703,8080,9808-9809,10200-10300,61678-61679", "kernel.perf_event_paranoid": "-1", "made.up": "whatever", "vm.nr_hugepages": "0",
	}
	require.NoError(t, Spec{KubernetesVersion: "1.34.4", Sysctls: all}.Validate())
	require.NoError(t, Spec{KubernetesVersion: "1.34.4", Sysctls: nodeSysctls()}.Validate())
	for name, value := range nodeSysctls() {
		assert.NoError(t, checkParameter(name, value), name)
	}
	for _, n := range refusals().Parameters {
		_, err := n.read(strings.Repeat(fmt.Sprintf("%d ", n.High), n.Count))
		require.NoError(t, err, n.Names)
		assert.Less(t, n.Low, n.High, n.Names)
	}
	for _, n := range refusals().Needs {
		for _, name := range n.Names {
			plain := strings.ReplaceAll(name, "*", "all")
			assert.Error(t, checkParameter(plain, "no number"), "%s has no row of parameters", name)
			assert.NoError(t, checkParameter(plain, fmt.Sprint(n.Least)), name)
		}
	}
}

func TestAcceptedKernelArguments(t *testing.T) {
	require.NoError(t, Spec{KubernetesVersion: "1.34.4", KernelArguments: []string{
		"quiet", "splash", "systemd.zram=0", "ro", "rw", "console=ttyS0,115200n8", "nomodeset", "nvme_core.io_timeout=4294967295", "net.ifnames=0", "cgroup_no_v1=all", "cgroup_enable=memory", "swapaccount=1",
		"cgroup_disable=pressure", "ipv6.disable=1", "modprobe.blacklist=nouveau", "systemd.unit=multi-user.target", "systemd.unified_cgroup_hierarchy=1", "selinux=1", "audit=0", "fips=1",
		"init=/usr/lib/systemd/systemd", "sysctl.vm.swappiness=1", "hugepages=64", "rd.driver.blacklist=nouveau", "systemd.legacy_systemd_cgroup_controller=0",
	}}.Validate())
}

func TestRefusedPackages(t *testing.T) {
	packages := refusals().Packages
	for _, name := range slices.Concat(show.Each(packages, func(m misfit) []string { return m.Names })...) {
		want := fmt.Sprintf("%q contradicts what a node needs: %s", name, misfits(name))
		require.EqualError(t, Spec{KubernetesVersion: "1.34.4", Packages: []string{"htop", name}}.Validate(), "packages: "+want)
		require.EqualError(t, Spec{KubernetesVersion: "1.34.4", PackageVersions: map[string]string{name: "1"}}.Validate(), "package_versions: "+want)
	}
	for _, d := range distros.All() { // packages that a distribution itself installs are accepted
		for _, name := range d.AllPackages() {
			assert.NoError(t, checkPackage("packages", name), d.ID)
		}
	}
}
