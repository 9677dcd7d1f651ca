package distros

// Only a boot shows which interface is the primary one, so first boot keeps the
// stack off the secondary ones. This file has the settings that are the same on
// every node.

// vethMAC stops udev from changing the MAC addresses of pods' interfaces: the
// VPC CNI records an address before udev changes it.
// https://github.com/aws/amazon-vpc-cni-k8s/issues/2103
func vethMAC() File {
	return File{
		"/etc/systemd/network/99-default.link.d/80-eksnode.conf", "[Link]\nMACAddressPolicy=none\n",
		"udev would change the MAC address of a pod's interface after the VPC CNI has recorded it",
	}
}

// foreignRoutes stops systemd-networkd from removing the pods' routes and rules
// when it restarts; see networkd.conf(5).
func foreignRoutes() File {
	return File{
		"/etc/systemd/networkd.conf.d/80-eksnode.conf",
		"[Network]\nManageForeignRoutes=no\nManageForeignRoutingPolicyRules=no\n",
		"networkd would remove the pods' routes and rules at every restart",
	}
}

// unmanagedPods stops systemd-networkd from configuring the host's ends of
// pods' interfaces. A machine that is a container has its own end as eth0, or
// as host0 in systemd-nspawn.
func unmanagedPods() File {
	return File{
		"/etc/systemd/network/05-eksnode-pods.network",
		"[Match]\nDriver=veth\nName=!eth* host0\n\n[Link]\nUnmanaged=yes\n",
		"networkd would configure the pods' interfaces",
	}
}

// Networkd is systemd-networkd.
func Networkd() NetworkStack {
	return NetworkStack{"systemd-networkd", Settings{Files: []File{foreignRoutes(), unmanagedPods(), vethMAC()}},
		resolved()}
}

// NetplanNetworkd is systemd-networkd with configuration that netplan writes.
func NetplanNetworkd() NetworkStack {
	return NetworkStack{"netplan with systemd-networkd",
		Settings{Files: []File{foreignRoutes(), unmanagedPods(), vethMAC()}}, resolved()}
}

// networkManager: nm-cloud-setup writes rules in the tables 30200 and 30400
// that catch the pods' packets. NetworkManager.conf(5) describes the list of
// devices.
func NetworkManager() NetworkStack {
	const why = "nm-cloud-setup writes routing rules for secondary addresses, which belong to pods"
	return NetworkStack{"NetworkManager", Settings{
		Files: []File{
			{
				"/etc/NetworkManager/conf.d/80-eksnode.conf",
				"[keyfile]\nunmanaged-devices+=driver:veth;except:interface-name:eth*;" +
					"except:interface-name:host0;interface-name:eni*;interface-name:vlan.eth*;interface-name:dummy0\n",
				"NetworkManager would configure the pods' interfaces",
			},
			vethMAC(),
		},
		Masked: []Masked{{"/etc/systemd/system/nm-cloud-setup.service", why},
			{"/etc/systemd/system/nm-cloud-setup.timer", why}},
	}, networkManagerDNS()}
}

// NetworkManagerResolved is NetworkManager with systemd-resolved.
func NetworkManagerResolved() NetworkStack {
	n := NetworkManager()
	n.DNS = resolved()
	return n
}

// Wicked configures only interfaces with an ifcfg file; see ifcfg(5).
func Wicked() NetworkStack {
	return NetworkStack{"wicked", Settings{Files: []File{vethMAC()}}, netconfig()}
}

// NetworkScripts is the stack of Amazon Linux 2: a file for each interface, and
// dhclient. Its udev does not change MAC addresses.
func NetworkScripts() NetworkStack { return NetworkStack{Name: "network-scripts with dhclient"} }
