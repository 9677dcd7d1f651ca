package distros

// Which of the interfaces is the primary one shows only at boot, so first boot
// takes the secondary ones from the stack. What is the same on every node is
// written here.

// vethMAC keeps udev from giving the pods' interfaces other addresses than the
// VPC CNI gave them: it remembers the address before udev changes it.
// https://github.com/aws/amazon-vpc-cni-k8s/issues/2103
func vethMAC() File {
	return File{
		"/etc/systemd/network/99-default.link.d/80-eksnode.conf", "[Link]\nMACAddressPolicy=none\n",
		"udev would change the address of a pod's interface after the VPC CNI has noted it",
	}
}

// foreignRoutes keeps systemd-networkd from removing the pods' routes and rules
// when it restarts; see networkd.conf(5).
func foreignRoutes() File {
	return File{
		"/etc/systemd/networkd.conf.d/80-eksnode.conf", "[Network]\nManageForeignRoutes=no\nManageForeignRoutingPolicyRules=no\n",
		"networkd would remove the pods' routes and rules whenever it restarts",
	}
}

// unmanagedPods keeps systemd-networkd off the host's ends of the pods'
// interfaces. A machine that is a container itself has its own end as eth0, or
// as host0 in systemd-nspawn.
func unmanagedPods() File {
	return File{
		"/etc/systemd/network/05-eksnode-pods.network", "[Match]\nDriver=veth\nName=!eth* host0\n\n[Link]\nUnmanaged=yes\n",
		"networkd would configure the pods' interfaces",
	}
}

func networkd() NetworkStack {
	return NetworkStack{"systemd-networkd", Settings{Files: []File{foreignRoutes(), unmanagedPods(), vethMAC()}}}
}

func netplanNetworkd() NetworkStack {
	return NetworkStack{"netplan with systemd-networkd", Settings{Files: []File{foreignRoutes(), unmanagedPods(), vethMAC()}}}
}

// networkManager: nm-cloud-setup writes rules in the tables 30200 and 30400
// that take the pods' packets; see NetworkManager.conf(5) for the devices.
func networkManager() NetworkStack {
	const why = "it writes routing rules for secondary addresses, which are the pods'"
	return NetworkStack{"NetworkManager", Settings{
		Files: []File{
			{
				"/etc/NetworkManager/conf.d/80-eksnode.conf",
				"[keyfile]\nunmanaged-devices+=driver:veth;interface-name:eni*;interface-name:vlan.eth*;interface-name:dummy0\n",
				"NetworkManager would configure the pods' interfaces",
			},
			vethMAC(),
		},
		Masked: []Masked{{"/etc/systemd/system/nm-cloud-setup.service", why}, {"/etc/systemd/system/nm-cloud-setup.timer", why}},
	}}
}

// wicked touches only interfaces that have an ifcfg file; see ifcfg(5).
func wicked() NetworkStack {
	return NetworkStack{"wicked", Settings{Files: []File{vethMAC()}}}
}

// networkScripts is Amazon Linux 2's: a file for each interface, and dhclient.
// Its udev has no policy of addresses that would concern pods' interfaces.
func networkScripts() NetworkStack { return NetworkStack{Name: "network-scripts with dhclient"} }
