package shape

import (
	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine/aptmirror"
)

// Leap16 is a machine of openSUSE Leap 16's shape: zypper, NetworkManager, chronyd.
func Leap16() Shape {
	s := leap("16.0")
	s.ID = "opensuse-leap-16"
	s.Packages = append(s.Packages, "network-manager")
	s.Enabled = append(s.Enabled, "NetworkManager.service")
	s.Disabled = []string{"systemd-networkd.service"}
	s.Empty = append(s.Empty, "container-selinux")
	s.Files = append(s.Files,
		base.File{Path: "/etc/NetworkManager/conf.d/10-containers.conf", Content: manageVeth, Mode: 0o644},
		base.File{Path: "/etc/selinux/config", Content: "SELINUX=disabled\nSELINUXTYPE=targeted\n", Mode: 0o644},
	)
	return s
}

// leap is what the releases have in common.
func leap(version string) Shape {
	return Shape{
		Suite:    "trixie",
		Packages: []string{"chrony"},
		Offered:  append(offeredByFedoras(), "apparmor"),
		Names: map[string]string{
			"conntrack": "conntrack-tools", "nfs-common": "nfs-client", "auditd": "audit", "libc6": "glibc", "network-manager": "NetworkManager", "apparmor": "apparmor-parser",
		},
		Empty:     []string{"ca-certificates-mozilla"},
		OSRelease: "NAME=\"openSUSE Leap\"\nVERSION=\"" + version + "\"\nID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\nVERSION_ID=\"" + version + "\"\nPRETTY_NAME=\"openSUSE Leap " + version + "\"\n",
		User:      "ec2-user",
		Units:     map[string]string{"ssh.service": "sshd.service", "chrony.service": "chronyd.service"},
		Enabled:   []string{"sshd.service", "chronyd.service"},
		Files: []base.File{
			{Path: "/etc/zypp/repos.d/repo-oss.repo", Content: "[repo-oss]\nname=repo-oss\nenabled=1\nautorefresh=1\nbaseurl=http://" + aptmirror.Host + ":" + Port + "/\ngpgcheck=1\nrepo_gpgcheck=1\npkg_gpgcheck=1\ngpgkey=file://" + keyPath + "\n", Mode: 0o644},
			{Path: "/etc/systemd/system/sshd.service.d/keys.conf", Content: "[Service]\nExecStartPre=/usr/bin/ssh-keygen -A\n", Mode: 0o644},
			{Path: "/etc/pki/trust/anchors/.keep", Mode: 0o644},
			{Path: "/usr/sbin/update-ca-certificates", Content: updateTrustOfSUSE, Mode: 0o755},
		},
		Removed:  []string{"/etc/systemd/system/ssh.service.d", "/usr/lib/systemd/system/ssh.socket"},
		Script:   "update-ca-certificates\n",
		manager:  rpmManager{programs: []string{"zypper"}, database: "/usr/lib/sysimage/rpm"},
		Revision: 2,
	}
}

const updateTrustOfSUSE = `#!/bin/sh
set -e
mkdir -p /var/lib/ca-certificates
cat /usr/share/ca-certificates/mozilla/*.crt > /var/lib/ca-certificates/ca-bundle.pem.new
for anchor in /etc/pki/trust/anchors/*; do
  [ ! -f "$anchor" ] || cat "$anchor" >> /var/lib/ca-certificates/ca-bundle.pem.new
done
mv /var/lib/ca-certificates/ca-bundle.pem.new /var/lib/ca-certificates/ca-bundle.pem
mkdir -p /etc/ssl/certs
ln -sfn /var/lib/ca-certificates/ca-bundle.pem /etc/ssl/certs/ca-certificates.crt
`
