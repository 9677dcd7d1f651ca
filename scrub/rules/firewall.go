package rules

import (
	"path"
	"regexp"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// firewallRows are firewalls of the host that cut nodes or pods off.
func firewallRows() []breaker {
	const groups = "On EKS, security groups and network policies filter traffic: disable the unit, or "
	return []breaker{
		{
			id: "host-firewall", cause: "network-plugin", reads: filters("forward", ""),
			program: "CNI plugins, kube-proxy", shows: "it drops packets of pods",
			fix: groups + "allow forwarded packets and port 10250", source: "kubeadm's preflight; amazon-vpc-cni-k8s #743",
			benchmarks: "CIS 4.1.2 for RHEL 9, CIS 4.2.3, CIS 4.3.8, CIS 3.4.1.2 for AL2023, V-257936",
			exempts: "check_ufw_active configured_firewalld_default_deny firewall_single_service_active firewalld-backend " +
				"firewalld_loopback_traffic_restricted firewalld_loopback_traffic_trusted firewalld_sshd_port_enabled " +
				"package_firewalld_installed package_ufw_installed service_firewalld_enabled service_nftables_enabled " +
				"service_ufw_enabled set_firewalld_default_zone set_nftables_base_chain set_nftables_table " +
				"package_iptables-persistent_installed ufw_only_required_services ufw_rate_limit ufw_rules_for_open_ports",
		},
		{
			id: "firewall-input", cause: "kubelet-port", reads: filters("input", "10250"),
			program: "API server, load balancers", shows: "logs, exec, probes and NodePorts time out",
			fix: groups + "allow port 10250, 30000 to 32767 and packets of pods", source: "kubernetes.io: Ports and Protocols",
			benchmarks: "CIS 4.3.8, CIS 4.4.2.1",
			exempts: "ip6tables_rules_for_open_ports iptables_rules_for_open_ports nftables_ensure_default_deny_policy " +
				"nftables_rules_permanent set_ip6tables_default_rule set_iptables_default_rule set_ipv6_loopback_traffic " +
				"set_loopback_traffic set_nftables_loopback_traffic set_ufw_default_rule set_ufw_loopback_traffic",
		},
		{
			id: "firewall-output", cause: "blocked", reads: filters("output", `443|`+newOutput),
			program: "kubelet, containerd, first boot",
			shows:   "the node reaches neither the API server, nor DNS, nor a registry",
			fix:     groups + "allow ports 443 and 53 and 169.254.0.0/16", source: "kubernetes.io: Ports and Protocols",
			benchmarks: "CIS 4.3.8, CIS 4.4.2.1", exempts: "ufw_default_outgoing_rule",
		},
		{
			id: "firewall-metadata", cause: "metadata",
			reads: anyOf(
				lines(`^-A OUTPUT\s+-d 169\.254\.169\.254(/32)?\s+(-p tcp\s+(-m tcp\s+)?(--dport 80\s+)?)?-j (DROP|REJECT)`,
					iptablesFiles...),
				lines(`\bip daddr 169\.254\.169\.254\s+(tcp dport 80\s+)?(counter\s+)?(drop|reject)`, append(nftFiles,
					"/etc/nftables/*", "/etc/nftables.d/*")...),
			),
			program: "first boot, VPC CNI, amazon-ssm-agent", shows: "the instance metadata service does not answer",
			fix:    "Remove the line; to keep pods away, set the instance's hop limit to 1",
			source: "EC2 User Guide: Limit access to the IMDS",
		},
		{
			id: "no-iptables", cause: "network-plugin",
			reads:   there("/opt/cni/bin/portmap").unless(there(programs("iptables", "iptables-nft")...)),
			program: "CNI plugin portmap", shows: `pods with a hostPort do not start: "failed to locate iptables"`,
			fix:    "Install iptables; its variant that writes to nftables is enough",
			source: "containernetworking/plugins: portmap",
		},
		{
			id: "nm-cloud-setup", cause: "network-plugin", reads: enabled("nm-cloud-setup.service", "nm-cloud-setup.timer"),
			program: "VPC CNI, Calico", shows: "NetworkManager's rules for secondary addresses catch packets of pods",
			since: "NetworkManager 1.26",
			fix:   "Mask the unit, as `eksnode provision` does", source: "nm-cloud-setup(8); k3s: Known issues",
		},
	}
}

var (
	nftFiles      = []string{"/etc/nftables.conf", "/etc/sysconfig/nftables.conf"}
	iptablesFiles = []string{"/etc/sysconfig/iptables", "/etc/iptables/iptables.rules", "/etc/iptables/rules.v4"}
)

// firewall is a service that filters packets from boot on.
type firewall struct {
	unit string
	// files have its rules. blocks are the patterns by which they block a chain.
	files  []string
	blocks map[string]string
}

var (
	// The policy of FORWARD alone does not block: units of the kubelet set it.
	iptablesBlocks = map[string]string{
		"forward": `(?m)^-A FORWARD -j (DROP|REJECT)`, "input": `(?m)^-A INPUT -j (DROP|REJECT)|^:INPUT DROP`,
		"output": `(?m)^-A OUTPUT -j (DROP|REJECT)|^:OUTPUT DROP`,
	}
	nftBlocks = map[string]string{"forward": nftBlock("forward"), "input": nftBlock("input"), "output": nftBlock("output")}
	firewalls = []firewall{
		{"firewalld.service", nil, map[string]string{"forward": ""}},
		{"ufw.service", []string{"/etc/ufw/ufw.conf", "/etc/default/ufw", "/etc/ufw/user.rules"}, map[string]string{
			"forward": `(?m)^ENABLED=["']?yes`, "output": `(?ms)^ENABLED=["']?yes.*^DEFAULT_OUTPUT_POLICY=["']?(DROP|REJECT)`}},
		{"nftables.service", nftFiles, nftBlocks},
		{"iptables.service", iptablesFiles[:2], iptablesBlocks},
		{"netfilter-persistent.service", iptablesFiles[2:], iptablesBlocks},
	}
)

func nftBlock(chain string) string {
	return `hook ` + chain + `\b[^}]*\b(policy drop|drop\s*}|reject[^;}\n]*\s*})`
}

// newOutput are rules of nftables, iptables and ufw that accept every new connection from
// the machine, as benchmarks demand beside the policy.
const newOutput = `hook output\b[^}]*\bct state [\w, {]*\bnew\b[\w, }]* accept|` +
	`-A (OUTPUT|ufw-user-output)( -p tcp)?( -m \w+)*( --(ct)?state \S*NEW\S*)? -j ACCEPT`

// filters finds firewalls that start at boot and block a chain, unless their
// rules match open. Firewalls that block more than one chain by themselves
// count for the chain forward.
func filters(chain, open string) reader {
	var paths []string
	for _, f := range firewalls {
		if _, blocks := f.blocks[chain]; blocks {
			paths = append(append(paths, starts+f.unit), f.files...)
		}
	}
	return reader{paths, func(d *rule.Draft) {
		for _, f := range firewalls {
			pattern, blocks := f.blocks[chain]
			if !blocks {
				continue
			}
			on := enabled(f.unit).findings(d)
			if len(on) == 0 {
				continue
			}
			text := filterRules(d, f.files)
			if regexp.MustCompile(pattern).MatchString(text) && (open == "" || !regexp.MustCompile(open).MatchString(text)) {
				d.Find(on[0].Target, on[0].Reason+" and blocks the chain "+chain)
			}
		}
	}}
}

var nftInclude = rule.Expression(`(?m)^\s*include\s+"([^"]+)"`)

// filterRules are the rules in files and in those that they include.
func filterRules(d *rule.Draft, files []string) string {
	var all strings.Builder
	for i := 0; i < len(files) && i < 100; i++ {
		text := d.Content(files[i])
		all.Write(text)
		for _, m := range nftInclude().FindAllStringSubmatch(string(text), -1) {
			pattern := m[1]
			if !path.IsAbs(pattern) {
				pattern = path.Join(path.Dir(files[i]), pattern)
			}
			files = append(files[:len(files):len(files)], d.Files(pattern)...)
		}
	}
	return all.String()
}
