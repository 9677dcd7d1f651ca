package shape

import (
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
)

// Rocky is a machine of Rocky Linux's shape: dnf 4, NetworkManager with
// nm-cloud-setup, chronyd, a sudo that does not search /usr/local. name is the
// release's code name.
func Rocky(version, name string) Shape {
	major, _, _ := strings.Cut(version, ".")
	return Shape{
		ID:       "rocky",
		Suite:    "trixie",
		Packages: []string{"chrony", "network-manager"},
		Offered:  without(offeredByFedoras(), "containerd", "runc"),
		Names:    namesOfFedoras(map[string]string{"iptables": "iptables-nft", "network-manager": "NetworkManager"}),
		Empty:    []string{"container-selinux", "kernel-modules-extra", "NetworkManager-cloud-setup"},
		OSRelease: `NAME="Rocky Linux"
VERSION="` + version + ` (` + name + `)"
ID="rocky"
ID_LIKE="rhel centos fedora"
VERSION_ID="` + version + `"
PLATFORM_ID="platform:el` + major + `"
PRETTY_NAME="Rocky Linux ` + version + ` (` + name + `)"
`,
		User:    "rocky",
		Units:   map[string]string{"ssh.service": "sshd.service", "chrony.service": "chronyd.service"},
		Enabled: []string{"sshd.service", "NetworkManager.service", "chronyd.service"},
		Files: append(filesOfFedoras("baseos"),
			base.File{Path: "/etc/NetworkManager/conf.d/10-containers.conf", Content: manageVeth, Mode: 0o644},
			base.File{Path: "/usr/lib/systemd/system/nm-cloud-setup.service", Content: "[Service]\nType=oneshot\nExecStart=/bin/true\n", Mode: 0o644},
			base.File{Path: "/usr/lib/systemd/system/nm-cloud-setup.timer", Content: "[Timer]\nOnBootSec=5min\nOnUnitActiveSec=5min\n\n[Install]\nWantedBy=timers.target\n", Mode: 0o644},
			base.File{Path: "/etc/sudoers.d/00-secure-path", Content: "Defaults secure_path = /sbin:/bin:/usr/sbin:/usr/bin\n", Mode: 0o440},
			base.File{Path: "/etc/selinux/config", Content: "SELINUX=disabled\nSELINUXTYPE=targeted\n", Mode: 0o644},
		),
		Removed:  []string{"/etc/systemd/system/ssh.service.d", "/usr/lib/systemd/system/ssh.socket"},
		Disabled: []string{"systemd-networkd.service"},
		Script:   "update-ca-trust\nsystemctl enable nm-cloud-setup.timer\n",
		manager:  rpmManager{programs: []string{"dnf"}, database: "/var/lib/rpm"},
		Revision: 1,
	}
}

func without(list []string, names ...string) []string {
	return slices.DeleteFunc(list, func(name string) bool { return slices.Contains(names, name) })
}
