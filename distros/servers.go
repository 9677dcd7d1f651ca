package distros

import "strings"

// servers is the placeholder in Servers for the servers with Between.
const servers = "{servers}"

// Servers is how the servers of a service are set, instead of those that the network
// or the image names.
type Servers struct {
	// Unit is the service; empty if servers cannot be set.
	Unit string
	// Path is the file with Text; empty if Lines are everything.
	Path, Text string
	// Between separates servers.
	Between string
	// Lines are lines of the service's own file.
	Lines []Line
}

// Line replaces the lines of a file that match the regular expression Key, or is added.
type Line struct{ Path, Key, Text string }

// Of returns a text with the servers.
func (s Servers) Of(text string, list []string) string {
	return strings.ReplaceAll(text, servers, strings.Join(list, s.Between))
}

// resolved: the domain ~. sends every name to these servers, except those below the
// domains that DHCP names, such as ec2.internal. See resolved.conf(5).
func resolved() Servers {
	return Servers{
		Unit: "systemd-resolved.service", Path: "/etc/systemd/resolved.conf.d/80-eksnode.conf",
		Text: "[Resolve]\nDNS={servers}\nDomains=~.\n", Between: " ",
	}
}

// networkManagerDNS: see global-dns-domain in NetworkManager.conf(5).
func networkManagerDNS() Servers {
	return Servers{
		Unit: "NetworkManager.service", Path: "/etc/NetworkManager/conf.d/80-eksnode-dns.conf",
		Text: "[global-dns-domain-*]\nservers={servers}\n", Between: ",",
	}
}

// netconfig: see NETCONFIG_DNS_POLICY in netconfig(8).
func netconfig() Servers {
	const config = "/etc/sysconfig/network/config"
	return Servers{Unit: "wicked.service", Between: " ", Lines: []Line{
		{config, "^NETCONFIG_DNS_POLICY=", `NETCONFIG_DNS_POLICY="STATIC"`},
		{config, "^NETCONFIG_DNS_STATIC_SERVERS=", `NETCONFIG_DNS_STATIC_SERVERS="{servers}"`},
	}}
}
