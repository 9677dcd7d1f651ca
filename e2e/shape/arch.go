package shape

import (
	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine/aptmirror"
)

// Arch is a machine of Arch Linux's shape: pacman with a keyring, /usr/sbin as a
// link, networkd with resolved and no netplan, timesyncd.
func Arch() Shape {
	return Shape{
		ID:       "arch",
		Suite:    "unstable",
		Packages: []string{"systemd-resolved", "systemd-timesyncd", "archlinux-keyring"},
		Offered: []string{
			"containerd", "runc", "conntrack", "ethtool", "ipset", "iptables", "nftables", "socat", "nfs-common", "auditd",
		},
		Fetched: []string{"makepkg"},
		Pinned:  oldControlGroups(),
		Names: map[string]string{
			"conntrack": "conntrack-tools", "nfs-common": "nfs-utils", "auditd": "audit", "pacman-package-manager": "pacman", "openssh-server": "openssh", "libc6": "glibc",
		},
		OneBin:    true,
		OSRelease: "NAME=\"Arch Linux\"\nPRETTY_NAME=\"Arch Linux\"\nID=arch\nBUILD_ID=rolling\nANSI_COLOR=\"38;2;23;147;209\"\nHOME_URL=\"https://archlinux.org/\"\nLOGO=archlinux-logo\n",
		User:      "arch",
		Units:     map[string]string{"ssh.service": "sshd.service"},
		Enabled:   []string{"sshd.service", "systemd-networkd.service", "systemd-resolved.service", "systemd-timesyncd.service"},
		Files: []base.File{
			{Path: "/etc/pacman.conf", Content: pacmanConf, Mode: 0o644},
			{Path: "/etc/pacman.d/mirrorlist", Content: "Server = http://" + aptmirror.Host + ":" + Port + "\n", Mode: 0o644},
			{Path: "/etc/systemd/network/20-ethernet.network", Content: "[Match]\nName=en* eth*\n\n[Network]\nDHCP=yes\n", Mode: 0o644},
			{Path: "/etc/systemd/system/sshd.service.d/keys.conf", Content: "[Service]\nExecStartPre=/usr/bin/ssh-keygen -A\n", Mode: 0o644},
			{Path: "/usr/bin/update-ca-trust", Content: updateTrust, Mode: 0o755},
			{Path: "/etc/ca-certificates/trust-source/anchors/.keep", Mode: 0o644},
		},
		Links:   map[string]string{"/etc/resolv.conf": "../run/systemd/resolve/stub-resolv.conf"},
		Removed: []string{"/etc/systemd/system/ssh.service.d", "/usr/lib/systemd/system/ssh.socket"},
		Script: `useradd --system --shell /usr/bin/nologin alpm
update-ca-trust
pacman-key --init
pacman-key --add /usr/share/pacman/keyrings/packager.asc
pacman-key --lsign-key packager@eksnode.test
gpgconf --homedir /etc/pacman.d/gnupg --kill all || true
`,
		manager:  pacmanManager{},
		Revision: 2,
	}
}

// pacmanConf turns off what needs Landlock, which kernels of test machines may
// lack.
const pacmanConf = `[options]
HoldPkg = pacman glibc
Architecture = auto
CheckSpace
ParallelDownloads = 5
DownloadUser = alpm
DisableSandboxFilesystem
SigLevel = Required DatabaseRequired
LocalFileSigLevel = Optional

[core]
Include = /etc/pacman.d/mirrorlist
`

// updateTrust does what Arch's and Fedora's program of this name does, as far as
// a node needs it.
const updateTrust = `#!/bin/sh
set -e
for bundle in /etc/ca-certificates/extracted/tls-ca-bundle.pem /etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem; do
  mkdir -p "${bundle%/*}"
  cat /usr/share/ca-certificates/mozilla/*.crt > "$bundle.new"
  for anchor in /etc/ca-certificates/trust-source/anchors/* /etc/pki/ca-trust/source/anchors/*; do
    [ ! -f "$anchor" ] || cat "$anchor" >> "$bundle.new"
  done
  mv "$bundle.new" "$bundle"
done
mkdir -p /etc/ssl/certs
ln -sfn /etc/ca-certificates/extracted/tls-ca-bundle.pem /etc/ssl/certs/ca-certificates.crt
`

// oldControlGroups takes a systemd that starts on control groups of version 1,
// which hosts of tests may have: 258 and newer do not.
func oldControlGroups() map[string]string { return map[string]string{"systemd": "trixie"} }
