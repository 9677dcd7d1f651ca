package rules

import (
	"bytes"
	"net"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
	"github.com/eksnode/packer-plugin-eksnode/scrub/secrets"
)

// networkRules are the rules for interfaces, leases and names of the builder machine.
func networkRules() []rule.Rule {
	g := []string{"network"}
	return []rule.Rule{
		{
			ID: "network-profiles", Phase: rule.Identity, Groups: g, Verb: plan.Remove,
			Paths: cloudProfiles, Owner: "cloud-init, ec2-net-utils, cloud-netconfig, udev",
			Why:         "the profiles match the builder machine's interfaces by MAC address, not the node's",
			Regenerated: "cloud-init, udev", Source: "virt-sysprep, image-builder",
		},
		{
			ID: "network-leases", Phase: rule.Identity, Groups: g, Verb: plan.Remove,
			Paths: []string{
				"/var/lib/dhcp/*.lease*", "/var/lib/dhclient/*", "/var/lib/dhcpcd/*", "/var/lib/NetworkManager/*.lease",
				"/var/lib/NetworkManager/secret_key", "/var/lib/NetworkManager/seen-bssids", "/var/lib/NetworkManager/timestamps",
				"/var/lib/NetworkManager/no-auto-default.state", "/var/lib/systemd/network/*", "/var/lib/wicked/*", "/var/lib/amazon/ec2-net-utils/*",
				"/var/lib/NetworkManager/dhclient-*", "/var/lib/connman/ethernet_*", "/var/lib/dnsmasq/*.leases", "/var/lib/libvirt/dnsmasq/*.status", "/var/lib/libvirt/dnsmasq/*.leases", "/var/lib/kea/*.csv*", "/var/lib/dhcpcd5/*",
				"/etc/dhcpcd.duid", "/etc/dhcpcd.secret", "/var/lib/dhcpd/*", "/var/lib/misc/dnsmasq.leases",
			}, Owner: "DHCP clients and servers",
			Why:         "nodes with the builder machine's leases and client IDs request the same address",
			Regenerated: "the DHCP client or server", Source: "virt-sysprep",
		},
		{
			ID: "resolv-conf", Phase: rule.Identity, Groups: g, Verb: plan.Remove,
			Paths: []string{"/etc/resolv.conf"}, Owner: "DHCP clients",
			Why:         "every node would use the build's name servers and search domain; a link to a generated file stays",
			Regenerated: "the DHCP client, cloud-init", Source: "amazon-eks-ami #182",
			Look: removesFiles(ofBuilder),
		},
		{
			ID: "iptables-restore", Phase: rule.Restored, Groups: []string{"bootstrap", "network", "units"}, Verb: plan.Disable,
			Paths:       []string{"/etc/systemd/system/iptables-restore.service", starts + "iptables-restore.service"},
			Owner:       "bootstrap.sh with dockerd",
			Why:         "without its file of rules, the unit fails on every node; with a file of rules, it stays",
			Regenerated: "bootstrap.sh with dockerd", Source: "amazon-eks-ami bootstrap.sh",
			Look: restoresNothing,
		},
		{
			ID: "hosts", Phase: rule.Identity, Groups: []string{"identity"}, Verb: plan.Write,
			Paths: []string{"/etc/hosts"}, Owner: "cloud-init, eksnode init, kOps, kubespray",
			Why: "every node would resolve the builder machine's name to 127.0.1.1, and an old Outpost's control plane to its old addresses; other lines stay", Regenerated: "cloud-init, with manage_etc_hosts; first boot", Source: "hosts(5); amazon-eks-ami nodeadm",
			Look: ownLinesInHosts,
		},
	}
}

// cloudProfiles are the profiles that cloud-init, ec2-net-utils and udev write
// for the interfaces of one machine.
var cloudProfiles = []string{
	"/etc/netplan/50-cloud-init.yaml", "/etc/network/interfaces.d/50-cloud-init", "/etc/network/interfaces.d/50-cloud-init.cfg",
	"/etc/systemd/network/10-cloud-init-*", "/etc/NetworkManager/system-connections/cloud-init-*",
	"/etc/NetworkManager/conf.d/30-cloud-init-ip6-addr-gen-mode.conf", "/etc/NetworkManager/conf.d/99-cloud-init.conf",
	"/etc/sysconfig/network-scripts/ifcfg-eth[1-9]*", "/etc/sysconfig/network-scripts/route*-eth*",
	"/etc/sysconfig/network/ifcfg-eth[1-9]*", "/etc/sysconfig/network/ifroute-eth[1-9]*",
	"/etc/udev/rules.d/*-persistent-net.rules", "/etc/udev/rules.d/85-persistent-net-cloud-init.rules", "/etc/udev/rules.d/70-persistent-cd.rules", "/etc/udev/rules.d/75-persistent-net-generator.rules.gen",
}

// restoresNothing plans the removal of the unit's copy and enablement if the
// file that it loads is missing. The original in /etc/eks stays.
func restoresNothing(d *rule.Draft) {
	const rules = "/etc/sysconfig/iptables"
	if d.Exists(rules) {
		return
	}
	disable(d, "would start at boot, and "+rules+" is missing", d.Paths[1])
	d.RemoveWhere("bootstrap.sh copied it from /etc/eks, and "+rules+" is missing",
		func(unit []byte) bool { return bytes.Contains(unit, []byte("iptables-restore < "+rules)) }, d.Paths[0])
}

// ownLinesInHosts removes three kinds of lines from /etc/hosts: those that map
// 127.0.1.1 to this machine's name (Debian's custom, see hosts(5); cloud-init
// writes them again), those with addresses of a cluster's endpoint, which
// `eksnode init`, nodeadm and bootstrap.sh add on an Outpost, and hostBlocks.
func ownLinesInHosts(d *rule.Draft) {
	kept, why := withoutOwnLines(string(d.Content(d.Paths[0])))
	if len(why) > 0 {
		d.Write(plan.Write, d.Paths[0], []byte(kept), strings.Join(why, "; "))
	}
}

// withoutOwnLines returns a hosts(5) without the machine's own lines, and a
// description of the removed lines.
func withoutOwnLines(text string) (left string, why []string) {
	drop := func(reason string) bool {
		if !slices.Contains(why, reason) {
			why = append(why, reason)
		}
		return true
	}
	end, at := "", 0 // the end of a tool's block, and the place in the text
	left = rule.WithoutLines(text, func(line string) bool {
		if last := hostBlocks[strings.TrimSpace(line)]; end == "" && strings.Contains(text[at:], last) {
			end = last
		}
		at += len(line)
		switch f := strings.Fields(line); {
		case end != "":
			if strings.TrimSpace(line) == end {
				end = ""
			}
			return drop("a cluster's tool wrote where its machines are")
		case len(f) > 1 && f[0] == "127.0.1.1":
			return drop("127.0.1.1 has this machine's name")
		case strings.HasSuffix(strings.TrimSpace(line), templates.HostsMark), namesEndpoint(f):
			return drop("first boot wrote where the old cluster's control plane is")
		}
		return false
	})
	return left, why
}

// hostBlocks are the first and last lines of the blocks that kOps and kubespray
// write.
var hostBlocks = map[string]string{
	"# Begin host entries managed by kops - do not edit": "# End host entries managed by kops",
	"# Ansible inventory hosts BEGIN":                    "# Ansible inventory hosts END",
}

// namesEndpoint reports whether the fields of a line give an address of a
// cluster's endpoint.
func namesEndpoint(fields []string) bool {
	if len(fields) < 2 || net.ParseIP(fields[0]) == nil {
		return false
	}
	return slices.ContainsFunc(fields[1:], func(name string) bool {
		name, _, _ = strings.Cut(name, "#")
		return secrets.ClusterEndpoint().MatchString(name)
	})
}

// removesFiles removes the row's files, but no links: a link means that another program
// generates the file.
func removesFiles(why string) func(*rule.Draft) {
	return func(d *rule.Draft) {
		for _, name := range d.Matching(d.Paths...) {
			if d.IsFile(name) {
				d.Remove(name, why)
			}
		}
	}
}

const ofBuilder = "belongs to the builder machine"
