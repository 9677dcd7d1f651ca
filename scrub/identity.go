package scrub

import (
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/plan"
)

const hostKeyGlob = "/etc/ssh/ssh_host_*_key*"

// networkRules are the rows of another machine's interfaces and leases.
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
				"/etc/udev/rules.d/70-persistent-net.rules", "/etc/udev/rules.d/70-persistent-cd.rules", "/etc/udev/rules.d/75-persistent-net-generator.rules.gen",
			}, Owner: "cloud-init, ec2-net-utils, udev",
			Why:         "another machine's interfaces, by its MAC addresses",
			Regenerated: "cloud-init, udev", Source: "virt-sysprep, image-builder",
		},
		{
			ID: "network-leases", Phase: Identity, Groups: g, Verb: plan.Remove,
			Paths: []string{
				"/var/lib/dhcp/*.lease*", "/var/lib/dhclient/*", "/var/lib/dhcpcd/*", "/var/lib/NetworkManager/*.lease",
				"/var/lib/NetworkManager/secret_key", "/var/lib/NetworkManager/seen-bssids", "/var/lib/NetworkManager/timestamps",
				"/var/lib/NetworkManager/no-auto-default.state", "/var/lib/systemd/network/*", "/var/lib/wicked/*", "/var/lib/amazon/ec2-net-utils/*",
				"/etc/dhcpcd.duid", "/etc/dhcpcd.secret", "/var/lib/dhcpd/*", "/var/lib/misc/dnsmasq.leases",
			}, Owner: "DHCP clients and servers",
			Why:         "leases and client ids of the build machine: two nodes would ask for one address",
			Regenerated: "the DHCP client or server", Source: "virt-sysprep",
		},
		{
			ID: "resolv-conf", Phase: Identity, Groups: g, Verb: plan.Remove,
			Paths: []string{"/etc/resolv.conf"}, Owner: "DHCP clients",
			Why:         "the build's name servers and search domain; a link to a generated file stays",
			Regenerated: "the DHCP client, cloud-init", Source: "amazon-eks-ami #182",
			Find: regularFile("/etc/resolv.conf"),
		},
	}
}

// identityRules are the rows of what makes a machine itself.
func identityRules() []Rule {
	g := []string{"identity"}
	return []Rule{
		{
			ID: "machine-id", Phase: Identity, Groups: g, Verb: plan.Empty,
			Paths: []string{"/etc/machine-id"}, Owner: "systemd",
			Why:         "the same machine id on every node",
			Regenerated: "systemd, at boot", Source: "machine-id(5)",
			Find: emptyMachineID,
		},
		{
			ID: "dbus-machine-id", Phase: Identity, Groups: g, Verb: plan.Remove,
			Paths: []string{"/var/lib/dbus/machine-id"}, Owner: "D-Bus",
			Why:         "the fallback that an empty machine id is filled from; a link stays",
			Regenerated: "D-Bus, systemd-tmpfiles", Source: "machine-id(5)",
			Find: regularFile("/var/lib/dbus/machine-id"),
		},
		{
			ID: "ssh-host-keys", Phase: Identity, Groups: append(g, "ssh"), Verb: plan.Remove,
			Paths: []string{hostKeyGlob}, Owner: "sshd",
			Why:         "every node would prove itself with the same keys",
			Regenerated: "cloud-init or sshd's key unit; where there is none, the keys stay and are reported", Source: "virt-sysprep, vagrant-libvirt #1184",
			Applies: hostKeysComeBack,
		},
		{
			ID: "random-seed", Phase: Identity, Groups: g, Verb: plan.Remove,
			Paths: []string{
				"/var/lib/systemd/random-seed", "/var/lib/systemd/credential.secret", "/boot/loader/random-seed",
				"/boot/efi/loader/random-seed", "/efi/loader/random-seed", "/var/lib/urandom/random-seed",
				"/var/lib/systemd/tpm2-srk-public-key.*", "/var/cache/pollinate/seeded",
			}, Owner: "systemd, pollinate",
			Why:         "every node would start from the same entropy and share one secret",
			Regenerated: "systemd, pollinate, at boot", Source: "https://systemd.io/BUILDING_IMAGES/, pollinate.service",
		},
		{
			ID: "hostname", Phase: Identity, Groups: g, Verb: plan.Remove,
			Paths: []string{"/etc/hostname", "/etc/machine-info"}, Owner: "cloud-init, systemd-hostnamed",
			Why: "the build machine's name", Regenerated: "cloud-init, DHCP", Source: "https://systemd.io/BUILDING_IMAGES/",
		},
		{
			ID: "hosts", Phase: Identity, Groups: g, Verb: plan.Write,
			Paths: []string{"/etc/hosts"}, Owner: "cloud-init, eksnode init",
			Why: "the build machine's name at 127.0.1.1, and the addresses of an Outpost's control plane that first boot wrote; other lines stay", Regenerated: "cloud-init, with manage_etc_hosts; first boot", Source: "hosts(5); amazon-eks-ami nodeadm",
			Find: ownLinesInHosts,
		},
		{
			ID: "cloud-init", Phase: Identity, Groups: g, Verb: plan.Remove,
			Paths: []string{
				"/var/lib/cloud/data", "/var/lib/cloud/instance", "/var/lib/cloud/instances", "/var/lib/cloud/sem", "/var/lib/cloud/handlers/*",
				"/etc/cloud/cloud.cfg.d/90-installer-network.cfg", "/etc/cloud/clean.d/*.run",
			}, Owner: "cloud-init",
			Why:         "the build's user data, instance id and secrets; user data is replayed after a rebundle",
			Regenerated: "cloud-init", Source: "cloud-init clean, cloud-init #2174",
		},
		{
			ID: "ssm-registration", Phase: Identity, Groups: append(g, "secrets"), Verb: plan.Remove,
			Paths: []string{
				"/var/lib/amazon/ssm/registration", "/var/lib/amazon/ssm/Vault", "/var/lib/amazon/ssm/runtimeconfig/*", "/var/lib/amazon/ssm/ipc",
				"/var/lib/amazon/ssm/i-*", "/var/lib/amazon/ssm/mi-*", "/var/lib/amazon/toe/*",
			}, Owner: "amazon-ssm-agent, EC2 Image Builder",
			Why: "the build machine's registration: two nodes would answer as one", Regenerated: "amazon-ssm-agent", Source: "amazon-ssm-agent #216, #381",
		},
		{
			ID: "storage-ids", Phase: Identity, Groups: g, Verb: plan.Remove,
			Paths: []string{
				"/etc/lvm/devices/system.devices", "/etc/lvm/backup/*", "/etc/lvm/archive/*", "/etc/multipath/bindings", "/etc/multipath/wwids",
				"/etc/blkid.tab*", "/etc/blkid/*",
			}, Owner: "LVM, multipathd, libblkid",
			Why: "ids of the build machine's disks", Regenerated: "LVM, multipathd, libblkid", Source: "virt-sysprep, multipath.conf(5)",
		},
		{
			ID: "nvme-host", Phase: Identity, Groups: g, Verb: plan.Remove,
			Paths: []string{"/etc/nvme/hostnqn", "/etc/nvme/hostid"}, Owner: "nvme-cli's package",
			Why:         "made when the package was installed: nodes with one name take each other's NVMe over Fabrics volumes and reservations",
			Regenerated: "nvme-cli and the kernel take one from the machine's UUID", Source: "metal-images #359, harvester/os2 #190",
		},
		{
			ID: "iscsi-initiator", Phase: Identity, Groups: g, Verb: plan.Remove,
			Paths: []string{initiatorName}, Owner: "open-iscsi",
			Why:         "two nodes with one initiator name take each other's volumes",
			Regenerated: "iscsi-init.service; where it is missing, the file stays and is reported", Source: "gardenlinux #3188",
			Find: staleInitiator,
		},
		{
			ID: "swap", Phase: Identity, Groups: append(g, "secrets"), Verb: plan.Remove,
			Paths: append(slices.Clone(swapFiles), "/etc/fstab"), Owner: "an administrator",
			Why: "memory of the build; and the kubelet does not start beside active swap", Regenerated: "nothing", Source: "image-builder",
			Find: unusedSwapFiles,
		},
		{
			ID: "hibernation", Phase: Identity, Groups: g, Verb: plan.Remove,
			Paths: []string{"/var/lib/hibinit-agent/hibernation-enabled"}, Owner: "ec2-hibinit-agent",
			Why: "the mark says that the swap file is there, and a node would never make its own", Regenerated: "ec2-hibinit-agent", Source: "ec2-hibinit-agent",
		},
		{
			ID: "clock-drift", Phase: Identity, Groups: g, Verb: plan.Remove,
			Paths: []string{"/var/lib/chrony/*", "/var/lib/ntp/*drift*", "/var/lib/ntpsec/*drift*"}, Owner: "chronyd, ntpd",
			Why: "how fast the build machine's clock runs, and cookies by which time servers know it", Regenerated: "chronyd, ntpd", Source: "chrony.conf(5), driftfile and ntsdumpdir",
		},
		{
			ID: "installer", Phase: Identity, Groups: append(g, "secrets"), Verb: plan.Remove,
			Paths: []string{
				"/root/anaconda-ks.cfg", "/root/original-ks.cfg", "/root/initial-setup-ks.cfg", "/etc/cloud/cloud.cfg.d/99-installer.cfg",
				"/etc/cloud/cloud.cfg.d/subiquity-disable-cloudinit-networking.cfg", "/etc/cloud/cloud.cfg.d/curtin-preserve-sources.cfg",
			}, Owner: "Anaconda, Subiquity",
			Why:         "answers to the installer, with hashes of passwords; Ubuntu's keep cloud-init from asking EC2",
			Regenerated: "nothing", Source: "image-builder",
		},
	}
}
