package rules

import (
	"path"
	"strconv"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// sysctlRows are the kernel settings with which no node, or not every node,
// works. Settings that other programs change again on each node are not among
// them.
func sysctlRows() []breaker {
	const sortsLast = " in a file of /etc/sysctl.d that sorts last"
	return []breaker{
		{
			id: "kernel-settings", cause: "kernel-settings",
			reads: anyOf(
				sysctl(not("10"), "kernel.panic"), sysctl(not("1"), "kernel.panic_on_oops", "vm.overcommit_memory"),
				sysctl(not("0"), "vm.panic_on_oom"),
				sysctl(not("1000000"), "kernel.keys.root_maxkeys"), sysctl(not("25000000"), "kernel.keys.root_maxbytes"),
			),
			program: "kubelet", shows: `a kubelet with protectKernelDefaults exits with "invalid kernel flag"`,
			since:  "every kubelet",
			fix:    "Remove the line, or set the kubelet's value" + sortsLast,
			source: "kubernetes/pkg/util/sysctl; terraform-aws-eks #3595",
		},
		{
			id: "ip-forward", cause: "kernel-settings",
			reads:   sysctl(not("1"), "net.ipv4.ip_forward", "net.ipv4.conf.all.forwarding"),
			program: "CNI plugins", shows: "pods have no network",
			fix:        "Set net.ipv4.ip_forward = 1" + sortsLast,
			source:     "kubeadm's preflight; terraform-aws-eks #3595",
			benchmarks: "CIS 3.3.1, CIS 3.2.1 for AL2023, V-257970",
			exempts:    "sysctl_net_ipv4_ip_forward sysctl_net_ipv4_conf_all_forwarding",
		},
		{
			id: "new-interfaces-forward", cause: "kernel-settings", reads: notForwarded(),
			program: "CNI plugins", shows: "interfaces of pods are made after boot and do not forward, so pods have no network",
			fix:        "Set net.ipv4.conf.default.forwarding = 1 in the same file",
			source:     "Linux Documentation/networking/ip-sysctl: ip_forward, conf/default",
			benchmarks: "CIS 3.3.1.3 for RHEL 10",
			exempts:    "sysctl_net_ipv4_conf_default_forwarding",
		},
		{
			id: "ipv6-forward", cause: "kernel-settings", reads: sysctl(is("0"), "net.ipv6.conf.all.forwarding"), note: true,
			program: "CNI plugins", shows: "pods of an IPv6 cluster have no network, unless the CNI plugin turns forwarding on",
			fix:        "For IPv6 clusters, set net.ipv6.conf.all.forwarding = 1" + sortsLast,
			source:     "amazon-vpc-cni-k8s: IPv6",
			benchmarks: "CIS 3.3.1, CIS 3.2.1 for AL2023, V-257974",
		},
		{
			id: "bridge-filter", cause: "kernel-settings",
			reads:   sysctl(is("0"), "net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables"),
			program: "kube-proxy", shows: "pods behind bridges cannot reach Services",
			fix:    "Set net.bridge.bridge-nf-call-iptables = 1" + sortsLast,
			source: "kubernetes.io: Network Plugins, sysctl requirements",
		},
		{
			id: "reverse-path", cause: "network-plugin", reads: sysctl(is("1"), "net.ipv4.conf.all.rp_filter"), note: true,
			program:    "Cilium",
			shows:      "Cilium's interfaces drop packets of pods; the VPC CNI sets its own interface to 2 and works",
			since:      "systemd 245",
			fix:        "For Cilium, set net.ipv4.conf.all.rp_filter = 0" + sortsLast,
			source:     "cilium #10645; amazon-vpc-cni-k8s README: secondary interfaces",
			benchmarks: "CIS 3.3.7, V-257962",
		},
		{
			id: "user-namespaces", cause: "oci-runtime", reads: sysctl(is("0"), "user.max_user_namespaces"),
			program:    "runc",
			shows:      `pods with hostUsers: false and units with PrivateUsers= fail with "no space left on device"`,
			since:      "kubelet 1.30",
			fix:        "Remove the line",
			source:     "user_namespaces(7); kubernetes.io: User Namespaces",
			benchmarks: "V-257816",
			exempts:    "sysctl_user_max_user_namespaces sysctl_user_max_user_namespaces_no_remediation",
		},
		{
			id: "modules-disabled", cause: "kernel-modules", reads: sysctl(is("1"), "kernel.modules_disabled"),
			program: "kube-proxy, CNI plugins",
			shows:   "no module loads after boot, and iptables fails with \"missing kernel module\"",
			fix:     "Remove the line",
			source:  "Linux Documentation/admin-guide/sysctl/kernel: modules_disabled",
		},
		{
			id: "bpf-hardened", cause: "network-plugin",
			reads: anyOf(sysctl(is("2"), "net.core.bpf_jit_harden"), sysctl(is("0"), "net.core.bpf_jit_enable")), note: true,
			program: "Cilium, other CNI plugins with eBPF", shows: "eBPF programs of pods' networks are slower",
			fix:        "If the CNI plugin uses eBPF, remove the line",
			source:     "Linux Documentation/admin-guide/sysctl/net: bpf_jit_harden",
			benchmarks: "V-257942",
		},
		{
			id: "ipv6-off", cause: "network-plugin",
			reads: anyOf(
				sysctl(is("1"), "net.ipv6.conf.all.disable_ipv6", "net.ipv6.conf.lo.disable_ipv6"), bootArgument(`ipv6\.disable=1`),
				lines(`^options\s+ipv6\s+.*disable(_ipv6)?=1`, inFolders("modprobe.d/*.conf")...),
			),
			program: "EKS Pod Identity Agent, nodes of IPv6 clusters",
			shows: `the agent of an older add-on exits with "bind: cannot assign requested address"; nodes of an IPv6 ` +
				`cluster do not join`,
			fix:        "Leave IPv6 on, or turn it off in the add-on's configuration and skip this rule",
			source:     "eks-pod-identity-agent #16; EKS User Guide: Disable IPv6 in the Pod Identity Agent",
			benchmarks: "CIS 3.1.1",
		},
		{
			id: "router-advertisements", cause: "node-network",
			reads: sysctl(is("0"), "net.ipv6.conf.all.accept_ra", "net.ipv6.conf.default.accept_ra"), note: true,
			program: "nodes of IPv6 clusters", shows: "without systemd-networkd or NetworkManager, the node has no IPv6 route",
			fix:        "For IPv6 clusters, set net.ipv6.conf.all.accept_ra = 2",
			source:     "Linux Documentation/networking/ip-sysctl: accept_ra",
			benchmarks: "CIS 3.3.11, V-257975",
		},
		{
			id: "log-martians", cause: "disk-full", reads: sysctl(is("1"), "net.ipv4.conf.all.log_martians"), note: true,
			program: "the kernel's log", shows: "packets of pods that the kernel does not expect fill the log",
			fix:        "If the log fills, remove the line",
			source:     "Linux Documentation/networking/ip-sysctl: log_martians",
			benchmarks: "CIS 3.3.9, V-257960",
		},
		{
			id: "few-resources", cause: "limits",
			reads: anyOf(
				sysctl(under(128), "fs.inotify.max_user_instances"), sysctl(under(8192), "fs.inotify.max_user_watches",
					"kernel.pid_max", "kernel.threads-max"),
				sysctl(under(65536), "fs.file-max", "fs.nr_open"),
			),
			program: "kubelet, containerd",
			shows:   `they fail with "too many open files" or "fork: resource temporarily unavailable"`,
			fix:     "Remove the line, or raise the value",
			source:  "awslabs/amazon-eks-ami: nodeadm sysctls",
		},
	}
}

// sysctl finds kernel settings whose value at boot is bad.
func sysctl(bad func(value string) bool, names ...string) reader {
	return reader{[]string{"/etc/sysctl.d/*.conf", "/usr/lib/sysctl.d/*.conf"}, func(d *rule.Draft) {
		last := sysctls(d)
		for _, name := range names {
			if s, set := last[name]; set && bad(s.Value) {
				d.Find(s.File, s.Says(name))
			}
		}
	}}
}

func is(bad string) func(string) bool { return func(value string) bool { return value == bad } }

func not(good string) func(string) bool { return func(value string) bool { return value != good } }

// under refuses numbers under least.
func under(least int) func(string) bool {
	return func(value string) bool {
		n, err := strconv.Atoi(value)
		return err == nil && n < least
	}
}

// notForwarded finds that new interfaces do not forward: net.ipv4.ip_forward
// sets all interfaces and those to come, and a later line takes it back.
func notForwarded() reader {
	const name = "net.ipv4.conf.default.forwarding"
	return reader{sysctl(nil).paths, func(d *rule.Draft) {
		last := sysctls(d)
		s, set := last[name]
		all, other := last["net.ipv4.ip_forward"], last["net.ipv4.conf.all.forwarding"]
		if set && s.Value == "0" && (all.File == "" || later(s, all)) && (other.File == "" || later(s, other)) {
			d.Find(s.File, s.Says(name))
		}
	}}
}

// sysctls returns what systemd-sysctl sets at boot, by name.
func sysctls(d *rule.Draft) map[string]rule.Setting {
	last := d.LastSettings(d.ConfFiles(inFolders("sysctl.d")...), func(key string) string {
		return dotted(strings.TrimPrefix(key, "-"))
	})
	// If a setting has two names, the later line wins.
	if one, all := last["net.ipv4.ip_forward"], last["net.ipv4.conf.all.forwarding"]; one.File != "" && all.File != "" {
		if later(one, all) {
			delete(last, "net.ipv4.conf.all.forwarding")
		} else {
			delete(last, "net.ipv4.ip_forward")
		}
	}
	return last
}

func later(a, b rule.Setting) bool {
	if a.File == b.File {
		return a.Line > b.Line
	}
	return path.Base(a.File) > path.Base(b.File)
}

// dotted returns a name as sysctl prints it. In a name with slashes, dots are
// part of the name of an interface.
func dotted(name string) string {
	if i := strings.IndexAny(name, "./"); i >= 0 && name[i] == '/' {
		return strings.NewReplacer("/", ".", ".", "/").Replace(name)
	}
	return name
}
