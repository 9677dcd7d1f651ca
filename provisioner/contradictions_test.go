package provisioner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros"
)

func TestRefusedSysctls(t *testing.T) {
	const (
		protected = ": the kubelet, whose configuration has protectKernelDefaults, does not start"
		needs     = "contradicts what a node needs, "
		noValue   = "is not a valid value: the parameter takes "
		integer   = noValue + "a whole number from -2147483648 to 2147483647"
	)
	for _, test := range []struct{ name, value, err string }{
		{"net.ipv4.ip_forward", "0", needs + "1: pods have no network"},
		{"net.ipv4.ip_forward", " 0 ", needs + "1: pods have no network"},
		{"net.ipv4.ip_forward", "0x0", needs + "1: pods have no network"},
		{"net.ipv4.ip_forward", "00", needs + "1: pods have no network"},
		{"net.ipv4.ip_forward", "yes", noValue + "a whole number from 0 to 1"},
		{"net.ipv4.ip_forward", "1 0", noValue + "a whole number from 0 to 1"},
		{"net.ipv4.ip_forward", "1_0", noValue + "a whole number from 0 to 1"},
		{"net.ipv4.ip_forward", "1 # on", noValue + "a whole number from 0 to 1"},
		{"net.ipv4.conf.all.forwarding", "0", needs + "1: pods have no network"},
		{"net.ipv4.conf.default.forwarding", "0", needs + "1: pods have no network"},
		{"net.ipv4.conf.eth0/100.forwarding", "0", needs + "1: pods have no network"},
		{"net.bridge.bridge-nf-call-iptables", "0", needs + "1: pods behind bridges cannot reach services"},
		{"net.bridge.bridge-nf-call-ip6tables", "0", needs + "1: pods behind bridges cannot reach services"},
		{"vm.overcommit_memory", "0", needs + "1" + protected},
		{"vm.overcommit_memory", "2", needs + "1" + protected},
		{"vm.panic_on_oom", "1", needs + "0" + protected},
		{"kernel.panic", "abc", integer},
		{"kernel.panic", "10s", integer},
		{"kernel.panic", "1e1", integer},
		{"kernel.panic", "99999999999999999999", integer},
		{"kernel.panic", "0", needs + "10" + protected},
		{"kernel.panic", "-1", needs + "10" + protected},
		{"kernel.panic_on_oops", "0", needs + "1" + protected},
		{"kernel.keys.root_maxkeys", "200", needs + "1000000" + protected},
		{"kernel.keys.root_maxbytes", "20000", needs + "25000000" + protected},
		{"kernel.modules_disabled", "1", needs + "0: kube-proxy and volumes could not load their modules"},
		{"kernel.pid_max", "1024", needs + "at least 32768: the pods' processes could not be started"},
		{"kernel.pid_max", "4194305", noValue + "a whole number from 301 to 4194304"},
		{"fs.file-max", "1024", needs + "at least 65536: containerd and the pods could not open their files"},
		{"fs.inotify.max_user_instances", "1", needs + "at least 128: the kubelet and containerd could not watch files"},
		{"vm.swappiness", "201", noValue + "a whole number from 0 to 200"},
		{"vm.nr_hugepages", "10 GiB", noValue + "a whole number from 0 to 9223372036854775807"},
		{"net.ipv4.tcp_rmem", "4096 87380", noValue + "3 whole numbers from 1 to 2147483647"},
		{"net.ipv4.ip_local_port_range", "32768-60999", noValue + "2 whole numbers from 1 to 65535"},
		{"net.ipv4.ip_local_port_range", "60999 32768", "ends before it begins"},
		{"net.ipv4.ip_local_reserved_ports", "8080", "leaves out port "},
		{"net.ipv4.ip_local_reserved_ports", "10250-10249", "is not a list of ports and ranges such as 2703,9808-9809"},
		{"NET.ipv4.ip_forward", "0", "has no effect, because the kernel's names are in lower case: write net.ipv4.ip_forward"},
		{"Kernel.panic", "10", "has no effect, because the kernel's names are in lower case: write kernel.panic"},
	} {
		t.Run(test.name+"="+test.value, func(t *testing.T) {
			err := Spec{KubernetesVersion: "1.34.4", Sysctls: map[string]string{test.name: test.value}}.Validate()
			require.ErrorContains(t, err, fmt.Sprintf("sysctls[%q] = %q %s", test.name, test.value, test.err))
		})
	}
	for _, name := range []string{"net/ipv4/ip_forward", "net/ipv4.ip_forward", "-net.ipv4.ip_forward", "net.ipv4.conf.*.forwarding", " net.ipv4.ip_forward", "net.ipv4.ip_forward ", "net..ip_forward"} {
		err := Spec{KubernetesVersion: "1.34.4", Sysctls: map[string]string{name: "0"}}.Validate()
		require.EqualError(t, err, fmt.Sprintf("sysctls[%q] is not a sysctl's name; write it with dots, such as net.ipv4.ip_forward", name))
	}
}

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
	for _, n := range needs {
		plain := strings.ReplaceAll(n.name, "*", "all")
		assert.Error(t, checkParameter(plain, "no number"), "%s has no row in numbers", n.name)
		assert.NoError(t, checkParameter(plain, fmt.Sprint(n.least)), n.name)
	}
}

func TestRefusedKernelArguments(t *testing.T) {
	const (
		boot   = "contradicts what a node needs: the machine would not start as a node"
		legacy = "selects cgroup v1, with which kubelets from 1.35 on do not start"
		module = "blocks a module that the network or the disks of a node need"
		cgroup = "removes a cgroup controller without which the kubelet does not start"
	)
	for argument, want := range map[string]string{
		"root=/dev/xvda1": "contradicts what a node needs: the boot loader must set root to the disk that it starts from, and an image is copied to other disks",
		"root=LABEL":      "contradicts what a node needs: the boot loader must set root", "root": "contradicts what a node needs: the boot loader must set root",
		"init=/bin/sh": "contradicts what a node needs: systemd starts the kubelet", "rdinit=/bin/sh": boot, "single": boot, "S": boot, "s": boot, "1": boot,
		"emergency": boot, "rescue": boot, "rd.break": boot, "rd.break=pre-mount": boot, "systemd.unit=rescue.target": boot, "systemd.unit=emergency.target": boot,
		"systemd.mask=kubelet.service":       "contradicts what a node needs: kubelet and containerd could not start",
		"systemd.unified_cgroup_hierarchy=0": legacy, "systemd.unified_cgroup_hierarchy=no": legacy, "systemd.unified_cgroup_hierarchy=False": legacy,
		"systemd.legacy_systemd_cgroup_controller": legacy, "systemd.legacy_systemd_cgroup_controller=1": legacy,
		"cgroup_disable=memory": cgroup, "cgroup_disable=pressure,cpu": cgroup, "cgroup-disable=pids": cgroup,
		"systemd.zram": "creates swap in memory, with which a kubelet does not start", "systemd.zram=1": "creates swap in memory, with which a kubelet does not start",
		"modprobe.blacklist=overlay": module, "module_blacklist=sd_mod,br-netfilter": module, "modprobe.blacklist=br_netfilter": module, "module_blacklist=nvme": module, "nomodule": module,
		"sysctl.vm.overcommit_memory=0": "contradicts what a node needs, 1: the kubelet, whose configuration has protectKernelDefaults, does not start",
		"sysctl.net.ipv4.ip_forward=0":  "contradicts what a node needs, 1: pods have no network",
		"sysctl.kernel.panic=abc":       "is not a valid value: the parameter takes a whole number from -2147483648 to 2147483647",
		"fips=0":                        `contradicts fips = "check"`,
		"audit=0":                       `contradicts hardening "audit": nothing would be recorded`,
		"audit=off":                     `contradicts hardening "audit": nothing would be recorded`,
	} {
		err := Spec{KubernetesVersion: "1.34.4", FIPS: "check", Hardening: []string{"audit"}, KernelArguments: []string{argument}}.Validate()
		require.ErrorContains(t, err, fmt.Sprintf("kernel_arguments: %q %s", argument, want))
	}
	require.NoError(t, Spec{KubernetesVersion: "1.34.4", KernelArguments: []string{
		"quiet", "splash", "systemd.zram=0", "ro", "rw", "console=ttyS0,115200n8", "nomodeset", "nvme_core.io_timeout=4294967295", "net.ifnames=0", "cgroup_no_v1=all", "cgroup_enable=memory", "swapaccount=1",
		"cgroup_disable=pressure", "ipv6.disable=1", "modprobe.blacklist=nouveau", "systemd.unit=multi-user.target", "systemd.unified_cgroup_hierarchy=1", "selinux=1", "audit=0", "fips=1",
		"init=/usr/lib/systemd/systemd", "sysctl.vm.swappiness=1", "hugepages=64", "rd.driver.blacklist=nouveau", "systemd.legacy_systemd_cgroup_controller=0",
	}}.Validate())
}

func TestRefusedPackages(t *testing.T) {
	for name, why := range misfits() {
		want := fmt.Sprintf("%q contradicts what a node needs: %s", name, why)
		require.EqualError(t, Spec{KubernetesVersion: "1.34.4", Packages: []string{"htop", name}}.Validate(), "packages: "+want)
		require.EqualError(t, Spec{KubernetesVersion: "1.34.4", PackageVersions: map[string]string{name: "1"}}.Validate(), "package_versions: "+want)
	}
	for _, d := range distros.All() { // packages that a distribution itself installs are accepted
		for _, name := range d.AllPackages() {
			assert.NoError(t, checkPackage("packages", name), d.ID)
		}
	}
	d := distroOf(t, "amazonlinux2")
	_, err := Steps(Spec{KubernetesVersion: "1.34.4", Packages: []string{"ec2-net-utils"}}, d, Inputs{Arch: "amd64"})
	require.EqualError(t, err, `packages: "ec2-net-utils" contradicts what a node needs on Amazon Linux 2: ec2-net-utils sets its own addresses and rules on secondary interfaces, which breaks those of the VPC CNI`)
}
