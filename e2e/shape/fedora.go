package shape

import "github.com/eksnode/packer-plugin-eksnode/e2e/base"

// Fedora is a machine of Fedora's shape: dnf 5, NetworkManager with resolved,
// zram-generator, chronyd.
func Fedora() Shape {
	return Shape{
		ID:       "fedora",
		Suite:    "unstable",
		Packages: []string{"systemd-resolved", "chrony", "network-manager", "systemd-zram-generator"},
		Offered:  offeredByFedoras(),
		Pinned:   oldControlGroups(),
		Names:    namesOfFedoras(map[string]string{"iptables": "iptables-nft", "network-manager": "NetworkManager", "systemd-zram-generator": "zram-generator"}),
		Empty:    []string{"container-selinux"},
		OneBin:   true,
		OSRelease: `NAME="Fedora Linux"
VERSION="43 (Cloud Edition)"
RELEASE_TYPE=stable
ID=fedora
VERSION_ID=43
PLATFORM_ID="platform:f43"
PRETTY_NAME="Fedora Linux 43 (Cloud Edition)"
CPE_NAME="cpe:/o:fedoraproject:fedora:43"
VARIANT="Cloud Edition"
VARIANT_ID=cloud
`,
		User:    "fedora",
		Units:   map[string]string{"ssh.service": "sshd.service", "chrony.service": "chronyd.service"},
		Enabled: []string{"sshd.service", "NetworkManager.service", "systemd-resolved.service", "chronyd.service"},
		Files: append(filesOfFedoras("fedora"),
			base.File{Path: "/etc/NetworkManager/conf.d/10-containers.conf", Content: manageVeth, Mode: 0o644},
			base.File{Path: "/usr/lib/systemd/zram-generator.conf", Content: "[zram0]\nzram-size = min(ram, 8192)\n", Mode: 0o644},
			base.File{Path: "/etc/selinux/config", Content: "SELINUX=disabled\nSELINUXTYPE=targeted\n", Mode: 0o644},
		),
		Links: map[string]string{"/etc/resolv.conf": "../run/systemd/resolve/stub-resolv.conf", "/usr/bin/dnf": "dnf5"},
		Removed: []string{
			"/etc/systemd/system/ssh.service.d", "/usr/lib/systemd/system/ssh.socket", "/etc/systemd/system/*/systemd-networkd*",
			// Fedora has it in a package of its own. It fails after every transaction.
			"/etc/dnf/libdnf5-plugins/local.conf", "/usr/lib/x86_64-linux-gnu/libdnf5/plugins/local.so",
		},
		Disabled: []string{"systemd-networkd.service"},
		Script:   "update-ca-trust\n",
		manager:  rpmManager{programs: []string{"dnf5"}, database: "/usr/lib/sysimage/rpm"},
		Revision: 1,
	}
}

// manageVeth lets NetworkManager configure the interface of a container, which
// Debian's rules for udev would take away.
const manageVeth = `[device-eth]
match-device=interface-name:eth*
managed=1

[keyfile]
unmanaged-devices=none
`
