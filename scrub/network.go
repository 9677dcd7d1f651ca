package scrub

import "github.com/eksnode/packer-plugin-eksnode/plan"

// networkRules are the rules for interfaces and leases of the builder machine.
func networkRules() []Rule {
	g := []string{"network"}
	return []Rule{
		{
			ID: "network-profiles", Phase: Identity, Groups: g, Verb: plan.Remove,
			Paths: cloudProfiles, Owner: "cloud-init, ec2-net-utils, udev",
			Why:         "the profiles match the builder machine's interfaces by MAC address, not the node's",
			Regenerated: "cloud-init, udev", Source: "virt-sysprep, image-builder",
		},
		{
			ID: "network-leases", Phase: Identity, Groups: g, Verb: plan.Remove,
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
			ID: "resolv-conf", Phase: Identity, Groups: g, Verb: plan.Remove,
			Paths: []string{"/etc/resolv.conf"}, Owner: "DHCP clients",
			Why:         "every node would use the build's name servers and search domain; a link to a generated file stays",
			Regenerated: "the DHCP client, cloud-init", Source: "amazon-eks-ami #182",
			Find: regularFile("/etc/resolv.conf"),
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
	"/etc/udev/rules.d/*-persistent-net.rules", "/etc/udev/rules.d/70-persistent-cd.rules", "/etc/udev/rules.d/75-persistent-net-generator.rules.gen",
}
