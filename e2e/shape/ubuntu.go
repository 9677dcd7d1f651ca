package shape

import (
	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine/aptmirror"
)

// Ubuntu is a machine of Ubuntu 24.04's shape: apt with sources of its own,
// netplan, chrony, a snap's mount, automatic upgrades,
// needrestart, and sshd behind a socket.
func Ubuntu() Shape {
	const keyring = "/usr/share/keyrings/ubuntu-archive-keyring.gpg"
	return Shape{
		ID:    "ubuntu",
		Suite: "trixie",
		Packages: []string{
			"netplan.io", "systemd-resolved", "chrony", "apparmor", "snapd", "unattended-upgrades", "needrestart", "rsyslog", "cron",
		},
		Offered: []string{
			"containerd", "runc", "conntrack", "ethtool", "ipset", "iptables", "nftables", "socat", "nfs-common", "auditd",
		},
		Empty: []string{"linux-modules-extra-aws"},
		OSRelease: `PRETTY_NAME="Ubuntu 24.04.3 LTS"
NAME="Ubuntu"
VERSION_ID="24.04"
VERSION="24.04.3 LTS (Noble Numbat)"
VERSION_CODENAME=noble
ID=ubuntu
ID_LIKE=debian
HOME_URL="https://www.ubuntu.com/"
UBUNTU_CODENAME=noble
LOGO=ubuntu-logo
`,
		User:     "ubuntu",
		Enabled:  []string{"ssh.socket", "systemd-networkd.service", "systemd-resolved.service", "chrony.service", "snap-core22-1748.mount", "unattended-upgrades.service", "apt-daily.timer", "apt-daily-upgrade.timer"},
		Disabled: []string{"ssh.service"},
		Files: []base.File{
			{Path: "/etc/apt/sources.list", Content: "# Ubuntu sources have moved to /etc/apt/sources.list.d/ubuntu.sources\n", Mode: 0o644},
			{Path: "/etc/apt/sources.list.d/ubuntu.sources", Content: "Types: deb\nURIs: http://" + aptmirror.Host + ":" + Port + "/\nSuites: noble\nComponents: main\nSigned-By: " + keyring + "\n", Mode: 0o644},
			{Path: "/etc/apt/apt.conf.d/20auto-upgrades", Content: "APT::Periodic::Update-Package-Lists \"1\";\nAPT::Periodic::Unattended-Upgrade \"1\";\n", Mode: 0o644},
			{Path: "/etc/lsb-release", Content: "DISTRIB_ID=Ubuntu\nDISTRIB_RELEASE=24.04\nDISTRIB_CODENAME=noble\nDISTRIB_DESCRIPTION=\"Ubuntu 24.04.3 LTS\"\n", Mode: 0o644},
			{Path: "/etc/debian_version", Content: "trixie/sid\n", Mode: 0o644},
			{Path: "/etc/cloud/cloud.cfg.d/20_ubuntu.cfg", Content: "system_info:\n  distro: ubuntu\n  network:\n    renderers: [netplan, eni, sysconfig]\n    activators: [netplan, eni, network-manager, networkd]\n", Mode: 0o644},
			// cloud-init configures no veth, which is all that machines of tests have.
			{Path: "/etc/netplan/90-default.yaml", Content: "network:\n  version: 2\n  ethernets:\n    all-eth:\n      match: {name: \"e*\"}\n      dhcp4: true\n", Mode: 0o600},
			{Path: "/etc/systemd/system/snap-core22-1748.mount", Content: snapMount, Mode: 0o644},
			{Path: "/var/lib/snapd/shape/core22/meta/snap.yaml", Content: "name: core22\nversion: 20250117\ntype: base\n", Mode: 0o644},
			{Path: "/snap/core22/1748/.keep", Mode: 0o644},
		},
		Links: map[string]string{"/etc/resolv.conf": "../run/systemd/resolve/stub-resolv.conf", "/snap/core22/current": "1748"},
		Removed: []string{
			"/etc/dpkg/dpkg.cfg.d/99mmdebstrap", "/etc/apt/apt.conf.d/99mmdebstrap", "/var/lib/apt/lists/*", "/var/cache/apt/*.bin",
		},
		Script:   "dpkg --purge ifupdown\n",
		manager:  aptManager{suite: "noble", keyring: keyring},
		Revision: 1,
	}
}

// snapMount is snapd's unit for a snap. It binds a folder, because machines of
// tests have no loop devices.
const snapMount = `[Unit]
Description=Mount unit for core22, revision 1748
After=snapd.mounts-pre.target
Before=snapd.mounts.target

[Mount]
What=/var/lib/snapd/shape/core22
Where=/snap/core22/1748
Type=none
Options=bind,nodev,ro,x-gdu.hide,x-gvfs-hide
LazyUnmount=yes

[Install]
WantedBy=snapd.mounts.target
WantedBy=multi-user.target
`
