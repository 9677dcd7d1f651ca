package shape

import (
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
)

// AmazonLinux2 is a machine of Amazon Linux 2's shape: dnf 4 under the name of
// yum, network scripts, and repositories that amazon-linux-extras enables.
func AmazonLinux2() Shape {
	s := AmazonLinux2023()
	s.ID = "amazonlinux2"
	s.Packages = []string{"chrony"}
	s.Names = namesOfFedoras(nil)
	s.OSRelease = `NAME="Amazon Linux"
VERSION="2"
ID="amzn"
ID_LIKE="centos rhel fedora"
VERSION_ID="2"
PRETTY_NAME="Amazon Linux 2"
ANSI_COLOR="0;33"
CPE_NAME="cpe:2.3:o:amazon:amazon_linux:2"
SUPPORT_END="2026-06-30"
`
	repository := func(name, enabled string) base.File {
		text := filesOfFedoras(name)[1].Content
		return base.File{Path: "/etc/yum.repos.d/" + name + ".repo", Content: strings.Replace(text, "enabled=1", "enabled="+enabled, 1), Mode: 0o644}
	}
	docker, selinux := repository("amzn2extra-docker", "0"), repository("amzn2extra-selinux-ng", "0")
	core := repository("amzn2-core", "1")
	// One folder of packages serves three repositories.
	core.Content += "excludepkgs=containerd,runc,container-selinux\n"
	docker.Content += "includepkgs=containerd,runc\n"
	selinux.Content += "includepkgs=container-selinux\n"
	s.Files = append(filesOfFedoras("amzn2-core")[2:], core, docker, selinux,
		base.File{Path: "/etc/yum.conf", Content: "[main]\ngpgcheck=1\nobsoletes=1\nplugins=1\n", Mode: 0o644},
		base.File{Path: "/etc/sysconfig/network-scripts/ifcfg-eth0", Content: "DEVICE=eth0\nBOOTPROTO=dhcp\nONBOOT=yes\nTYPE=Ethernet\n", Mode: 0o644},
		base.File{Path: "/etc/sysconfig/network", Content: "NETWORKING=yes\nNOZEROCONF=yes\n", Mode: 0o644},
		base.File{Path: "/usr/bin/amazon-linux-extras", Content: extras, Mode: 0o755},
		base.File{Path: "/etc/systemd/network/80-ec2.network", Content: "[Match]\nName=en* eth*\n\n[Network]\nDHCP=yes\n", Mode: 0o644},
		base.File{Path: "/etc/selinux/config", Content: "SELINUX=disabled\nSELINUXTYPE=targeted\n", Mode: 0o644},
	)
	s.Enabled = []string{"sshd.service", "systemd-networkd.service", "chronyd.service"}
	s.Links = map[string]string{"/usr/bin/yum": "dnf", "/etc/dnf/dnf.conf": "../yum.conf"}
	return s
}

// extras enables topics as the real program does, as far as `enable` goes.
const extras = `#!/bin/sh
set -e
[ "$1" = enable ] || { echo "amazon-linux-extras: unknown command $1" >&2; exit 1; }
shift
for topic; do
  file=/etc/yum.repos.d/amzn2extra-$topic.repo
  [ -e "$file" ] || { echo "Topic $topic is not found." >&2; exit 1; }
  sed -i 's/^enabled=0/enabled=1/' "$file"
done
`
