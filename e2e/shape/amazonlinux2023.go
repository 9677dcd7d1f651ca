package shape

import (
	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine/aptmirror"
)

// AmazonLinux2023 is a machine of Amazon Linux 2023's shape: dnf 4, networkd with
// resolved and amazon-ec2-net-utils, chronyd, a locked release version.
func AmazonLinux2023() Shape {
	return Shape{
		ID:       "amazonlinux2023",
		Suite:    "trixie",
		Packages: []string{"systemd-resolved", "chrony", "amazon-ec2-net-utils"},
		Offered:  offeredByFedoras(),
		Names:    namesOfFedoras(map[string]string{"iptables": "iptables-nft"}),
		Empty:    []string{"container-selinux"},
		OSRelease: `NAME="Amazon Linux"
VERSION="2023"
ID="amzn"
ID_LIKE="fedora"
VERSION_ID="2023"
PLATFORM_ID="platform:al2023"
PRETTY_NAME="Amazon Linux 2023.9.20251027"
ANSI_COLOR="0;33"
CPE_NAME="cpe:2.3:o:amazon:amazon_linux:2023"
HOME_URL="https://aws.amazon.com/linux/amazon-linux-2023/"
VENDOR_NAME="AWS"
SUPPORT_END="2029-06-30"
`,
		User:    "ec2-user",
		Units:   map[string]string{"ssh.service": "sshd.service", "chrony.service": "chronyd.service"},
		Enabled: []string{"sshd.service", "systemd-networkd.service", "systemd-resolved.service", "chronyd.service"},
		Files: append(filesOfFedoras("amazonlinux"),
			base.File{Path: "/etc/dnf/vars/releasever", Content: "2023.9.20251027\n", Mode: 0o644},
			base.File{Path: "/etc/dnf/vars/awsregion", Content: "default\n", Mode: 0o644},
			base.File{Path: "/etc/systemd/network/80-ec2.network", Content: "[Match]\nName=en* eth*\n\n[Network]\nDHCP=yes\n", Mode: 0o644},
		),
		Links:    map[string]string{"/etc/resolv.conf": "../run/systemd/resolve/resolv.conf"},
		Removed:  []string{"/etc/systemd/system/ssh.service.d", "/usr/lib/systemd/system/ssh.socket"},
		Script:   "update-ca-trust\n",
		manager:  rpmManager{programs: []string{"dnf"}, database: "/var/lib/rpm"},
		Revision: 1,
	}
}

// offeredByFedoras are the packages in the repositories of Fedora's descendants.
func offeredByFedoras() []string {
	return []string{"containerd", "runc", "conntrack", "ethtool", "ipset", "iptables", "nftables", "socat", "nfs-common", "auditd", "policycoreutils"}
}

// namesOfFedoras are the names of packages in Fedora and its descendants.
func namesOfFedoras(more map[string]string) map[string]string {
	all := map[string]string{
		"conntrack": "conntrack-tools", "nfs-common": "nfs-utils", "auditd": "audit", "iproute2": "iproute", "libc6": "glibc", "dbus": "dbus-broker",
	}
	for debian, name := range more {
		all[debian] = name
	}
	return all
}

// filesOfFedoras are files of Fedora and its descendants.
func filesOfFedoras(repository string) []base.File {
	return []base.File{
		{Path: "/etc/dnf/dnf.conf", Content: "[main]\ngpgcheck=True\ninstallonly_limit=3\nclean_requirements_on_remove=True\nbest=True\nskip_if_unavailable=False\n", Mode: 0o644},
		{Path: "/etc/yum.repos.d/" + repository + ".repo", Content: "[" + repository + "]\nname=" + repository + "\nbaseurl=http://" + aptmirror.Host + ":" + Port + "/\nenabled=1\ngpgcheck=1\nrepo_gpgcheck=1\ngpgkey=file://" + keyPath + "\n", Mode: 0o644},
		{Path: "/etc/systemd/system/sshd.service.d/keys.conf", Content: "[Service]\nExecStartPre=/usr/bin/ssh-keygen -A\n", Mode: 0o644},
		{Path: "/usr/bin/update-ca-trust", Content: updateTrust, Mode: 0o755},
		{Path: "/etc/pki/ca-trust/source/anchors/.keep", Mode: 0o644},
	}
}
