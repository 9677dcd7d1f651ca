package scrub

import (
	"context"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// networkRules are the rules for interfaces and leases of the builder machine.
func networkRules() []Rule {
	g := []string{"network"}
	return []Rule{
		{
			ID: "network-profiles", Phase: Identity, Groups: g, Verb: plan.Remove,
			Paths: []string{
				"/etc/netplan/50-cloud-init.yaml", "/etc/network/interfaces.d/50-cloud-init", "/etc/network/interfaces.d/50-cloud-init.cfg",
				"/etc/systemd/network/10-cloud-init-*", "/etc/NetworkManager/system-connections/cloud-init-*",
				"/etc/NetworkManager/conf.d/30-cloud-init-ip6-addr-gen-mode.conf", "/etc/NetworkManager/conf.d/99-cloud-init.conf",
				"/etc/sysconfig/network-scripts/ifcfg-eth[1-9]*", "/etc/sysconfig/network-scripts/route*-eth*",
				"/etc/sysconfig/network/ifcfg-eth[1-9]*", "/etc/sysconfig/network/ifroute-eth[1-9]*", "/etc/udev/rules.d/85-persistent-net-cloud-init.rules",
				"/etc/udev/rules.d/70-persistent-net.rules", "/etc/udev/rules.d/70-persistent-cd.rules", "/etc/udev/rules.d/75-persistent-net-generator.rules.gen",
			}, Owner: "cloud-init, ec2-net-utils, cloud-netconfig, udev",
			Why:         "the profiles match the builder machine's interfaces by MAC address, not the node's",
			Regenerated: "cloud-init, udev", Source: "virt-sysprep, image-builder",
		},
		{
			ID: "interface-addresses", Phase: Identity, Groups: g, Verb: plan.Write,
			Paths: interfaceFiles, Owner: "cloud-init, installers",
			Why:         "the node's interface would not start, or would get the builder machine's MAC address; other lines stay",
			Regenerated: "cloud-init", Source: "virt-sysprep, net-hwaddr; ifcfg(5), LLADDR",
			Find: linesOfAddresses,
		},
		{
			ID: "network-leases", Phase: Identity, Groups: g, Verb: plan.Remove,
			Paths: []string{
				"/var/lib/dhcp/*.lease*", "/var/lib/dhclient/*", "/var/lib/dhcpcd/*", "/var/lib/NetworkManager/*.lease",
				"/var/lib/NetworkManager/secret_key", "/var/lib/NetworkManager/seen-bssids", "/var/lib/NetworkManager/timestamps",
				"/var/lib/NetworkManager/no-auto-default.state", "/var/lib/systemd/network/*", "/var/lib/wicked/*", "/var/lib/amazon/ec2-net-utils/*",
				"/etc/dhcpcd.duid", "/etc/dhcpcd.secret", "/var/lib/dhcpd/*", "/var/lib/misc/dnsmasq.leases",
			}, Owner: "DHCP clients and servers",
			Why:         "nodes with the builder machine's leases and client IDs request the same address",
			Regenerated: "the DHCP client or server", Source: "virt-sysprep",
		},
		{
			ID: "resolv-conf", Phase: Identity, Groups: g, Verb: plan.Remove,
			Paths: []string{"/etc/resolv.conf"}, Owner: "DHCP clients",
			Why:         "every node would use the build's name servers and search domain; a link to a generated file stays",
			Regenerated: "the DHCP client, cloud-init", Source: "amazon-eks-ami #182",
			Find: regularFile("/etc/resolv.conf"),
		},
	}
}

// interfaceFiles have the interfaces of network scripts and of wicked.
var interfaceFiles = []string{"/etc/sysconfig/network-scripts/ifcfg-*", "/etc/sysconfig/network/ifcfg-*"}

// linesOfAddresses removes the lines with MAC addresses from the interfaces' files.
// HWADDR limits a file to one address, MACADDR and LLADDR set the address.
func linesOfAddresses(_ context.Context, h *host.Host) (plan.Answer, error) {
	var answer plan.Answer
	for _, pattern := range interfaceFiles {
		names, err := glob(h, pattern)
		if err != nil {
			return plan.Answer{}, err
		}
		for _, name := range names {
			a, err := withoutLines(h, name, isAddress, "has the builder machine's MAC address")
			if err != nil {
				return plan.Answer{}, err
			}
			answer.Add(a)
		}
	}
	return answer, nil
}

var addressLine = expression(`(?i)^[\s#]*(export\s+)?(HWADDR|MACADDR|LLADDR)\s*=`)

func isAddress(line string) bool { return addressLine().MatchString(line) }

// withoutLines plans a file without some of its lines. What is no file stays.
func withoutLines(h *host.Host, name string, drop func(line string) bool, why string) (plan.Answer, error) {
	st, err := h.Files.Stat(name)
	if leadsNowhere(err) || err == nil && !st.Mode().IsRegular() {
		return plan.Answer{}, nil
	}
	if err != nil {
		return plan.Answer{}, err
	}
	text, err := h.Content(name)
	if err != nil {
		return plan.Answer{}, err
	}
	left := leftLines(string(text), drop)
	if left == string(text) {
		return plan.Answer{}, nil
	}
	attr, err := h.Files.Attributes(name)
	if err != nil {
		return plan.Answer{}, err
	}
	return plan.Acts(plan.Action{Verb: plan.Write, Target: name, Reason: why,
		Do: func(context.Context, plan.Progress) error { return h.Files.WriteFile(name, []byte(left), attr) }}), nil
}

func leftLines(text string, drop func(line string) bool) string {
	var left strings.Builder
	for line := range strings.Lines(text) {
		if !drop(line) {
			left.WriteString(line)
		}
	}
	return left.String()
}

// regularFile plans the removal of a file, but not of a link: a link means that
// another program generates the file.
func regularFile(name string) func(context.Context, *host.Host) (plan.Answer, error) {
	return func(_ context.Context, h *host.Host) (plan.Answer, error) {
		st, err := h.Files.Lstat(name)
		if err != nil || !st.Mode().IsRegular() {
			return plan.Answer{}, ignoreMissing(err)
		}
		return planPath(h, plan.Remove, name, "belongs to the builder machine")
	}
}
