package shape

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine/aptmirror"
)

// AmazonLinux2 is a machine of Amazon Linux 2's shape: dnf 4 under the name of
// yum, network scripts with dhclient, ec2-net-utils, and repositories that
// amazon-linux-extras enables. Debian has neither yum 3 nor a kernel with control
// groups of version 1.
func AmazonLinux2() Shape {
	s := AmazonLinux2023()
	s.ID = "amazonlinux2"
	s.Packages = []string{"chrony", "isc-dhcp-client"}
	s.Names = namesOfFedoras(map[string]string{"isc-dhcp-client": "dhclient", "dbus": "dbus"})
	s.OSRelease = `NAME="Amazon Linux"
VERSION="2"
ID="amzn"
ID_LIKE="centos rhel fedora"
VERSION_ID="2"
PRETTY_NAME="Amazon Linux 2"
ANSI_COLOR="0;33"
CPE_NAME="cpe:2.3:o:amazon:amazon_linux:2"
HOME_URL="https://amazonlinux.com/"
SUPPORT_END="2026-06-30"
`
	// One folder of packages serves all repositories.
	core := filesOfFedoras("amzn2-core")[1]
	core.Content += "excludepkgs=containerd,runc,container-selinux\n"
	topic := strings.NewReplacer("amzn2-core", "amzn2extra-$topic", "excludepkgs=containerd,runc,container-selinux", "includepkgs=$packages").Replace(core.Content)
	file := func(path, content string) base.File { return base.File{Path: path, Content: content, Mode: 0o644} }
	program := func(path, content string) base.File { return base.File{Path: path, Content: content, Mode: 0o755} }
	s.Files = append(filesOfFedoras("amzn2-core")[2:], core,
		file("/etc/yum.conf", "[main]\ncachedir=/var/cache/yum/$basearch/$releasever\nkeepcache=0\ngpgcheck=1\nobsoletes=1\nplugins=1\ninstallonly_limit=3\ndistroverpkg=system-release\n"),
		file("/etc/system-release", "Amazon Linux release 2 (Karoo)\n"),
		program("/usr/bin/amazon-linux-extras", strings.Replace(extras, "REPOSITORY", topic, 1)),
		file("/etc/sysconfig/network", "NETWORKING=yes\nNOZEROCONF=yes\n"),
		file("/etc/sysconfig/network-scripts/ifcfg-eth0", "DEVICE=eth0\nBOOTPROTO=dhcp\nONBOOT=yes\nTYPE=Ethernet\nUSERCTL=yes\nPEERDNS=yes\nPERSISTENT_DHCLIENT=yes\n"),
		file("/etc/sysconfig/network-scripts/ifcfg-lo", "DEVICE=lo\nONBOOT=yes\n"),
		file("/etc/sysconfig/network-scripts/network-functions", "# See ifup.\n"),
		program("/etc/sysconfig/network-scripts/ifup", ifup),
		program("/etc/sysconfig/network-scripts/ifdown", ifdown),
		file("/usr/lib/systemd/system/network.service", networkScriptsUnit),
		file("/var/lib/dhclient/.keep", ""),
		file("/etc/udev/rules.d/53-ec2-network-interfaces.rules", `SUBSYSTEM=="net", KERNEL=="eth*", RUN+="/etc/sysconfig/network-scripts/ec2net.hotplug"`+"\n"),
		program("/etc/sysconfig/network-scripts/ec2net.hotplug", "#!/bin/sh\nexit 0\n"),
		file("/etc/selinux/config", "SELINUX=disabled\nSELINUXTYPE=targeted\n"),
		file("/etc/cloud/cloud.cfg.d/20_amazon.cfg", "system_info:\n  distro: amazon\nnetwork:\n  config: disabled\n"),
	)
	s.Own = []Own{
		{Name: "system-release", Version: "2", Provides: []string{"system-release(releasever) = 2"}, Files: []string{"/usr/lib/os-release", "/etc/os-release", "/etc/system-release", "/etc/yum.repos.d/amzn2-core.repo"}},
		{Name: "yum", Version: "3.4.3", Files: []string{"/usr/bin/yum", "/etc/yum.conf"}},
		{Name: "amazon-linux-extras", Version: "2.0.3", Files: []string{"/usr/bin/amazon-linux-extras"}},
		{Name: "initscripts", Version: "9.49.47", Files: []string{
			"/etc/sysconfig/network", "/etc/sysconfig/network-scripts/ifcfg-lo", "/etc/sysconfig/network-scripts/network-functions", "/etc/sysconfig/network-scripts/ifup", "/etc/sysconfig/network-scripts/ifdown",
			"/usr/sbin/ifup", "/usr/sbin/ifdown", "/usr/lib/systemd/system/network.service",
		}},
		{Name: "ec2-net-utils", Version: "1.7.3", Files: []string{"/etc/udev/rules.d/53-ec2-network-interfaces.rules", "/etc/sysconfig/network-scripts/ec2net.hotplug"}},
	}
	s.Enabled = []string{"sshd.service", "network.service", "chronyd.service"}
	s.Removed = append(s.Removed, noNetworkd()...)
	s.Links = map[string]string{
		"/usr/bin/yum": "dnf", "/etc/dnf/dnf.conf": "../yum.conf", "/etc/redhat-release": "system-release",
		"/etc/ssl/certs/ca-bundle.crt": "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	}
	// Debian's ifupdown had files of these names.
	s.Script += cloudInitAfterDBus + "ln -s /etc/sysconfig/network-scripts/ifup /usr/sbin/ifup\nln -s /etc/sysconfig/network-scripts/ifdown /usr/sbin/ifdown\n"
	return s
}

// noNetworkd are globs of networkd and of Debian's ifupdown.
func noNetworkd() []string {
	return []string{
		"/usr/lib/systemd/systemd-networkd*", "/usr/lib/systemd/system/systemd-networkd*", "/usr/bin/networkctl", "/etc/systemd/system/*.wants/systemd-network*", "/etc/systemd/system/*.wants/*networkd*",
		"/usr/sbin/ifquery", "/usr/lib/systemd/system/networking.service", "/usr/lib/systemd/system/ifup*", "/etc/systemd/system/*.wants/networking.service",
	}
}

// cloudInitAfterDBus starts cloud-init's second stage when hostnamectl works, as
// the distributions of rpm do. Debian's starts before D-Bus.
const cloudInitAfterDBus = `sed -i -e /^DefaultDependencies=no/d -e s/^Before=sysinit.target/After=dbus.service/ /usr/lib/systemd/system/cloud-init-network.service
`

// extras enables topics as the real program does: it adds a repository for each.
const extras = `#!/bin/sh
set -e
[ "$1" = enable ] || { echo "amazon-linux-extras: unknown command $1" >&2; exit 1; }
shift
file=/etc/yum.repos.d/amzn2-extras.repo
for topic; do
  case $topic in
  docker) packages=containerd,runc ;;
  selinux-ng) packages=container-selinux ;;
  *) echo "Topic $topic is not found." >&2; exit 1 ;;
  esac
  grep -qsF "[amzn2extra-$topic]" "$file" || cat >> "$file" <<EOF
REPOSITORY
EOF
done
`

// ifup starts an interface as Amazon Linux 2's network scripts do. Like them, it
// refuses an interface whose file has another's address.
const ifup = `#!/bin/sh
set -e
device=$1
. "/etc/sysconfig/network-scripts/ifcfg-$device"
if [ -n "$HWADDR" ] && [ "$(tr a-f A-F < "/sys/class/net/$device/address")" != "$(echo "$HWADDR" | tr a-f A-F)" ]; then
  echo "Device $device has different MAC address than expected, ignoring." >&2
  exit 1
fi
ip link set dev "$device" up
[ "$BOOTPROTO" != dhcp ] || exec dhclient -q -1 -lf "/var/lib/dhclient/dhclient--$device.lease" -pf "/var/run/dhclient-$device.pid" "$device"
`

const ifdown = `#!/bin/sh
dhclient -q -r -lf "/var/lib/dhclient/dhclient--$1.lease" -pf "/var/run/dhclient-$1.pid" "$1"
ip link set dev "$1" down
`

// networkScriptsUnit does what systemd makes of the script /etc/init.d/network.
const networkScriptsUnit = `[Unit]
Description=Bring up/down networking
DefaultDependencies=no
After=local-fs.target network-pre.target cloud-init-local.service
Wants=network.target
Before=network.target network-online.target cloud-init-network.service shutdown.target
Conflicts=shutdown.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -ec 'for file in /etc/sysconfig/network-scripts/ifcfg-*; do device=$${file##*/ifcfg-}; if [ "$$device" != lo ]; then ifup "$$device"; fi; done'

[Install]
WantedBy=multi-user.target network-online.target
`

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

func namesOfFedoras(more map[string]string) map[string]string {
	all := map[string]string{
		"conntrack": "conntrack-tools", "nfs-common": "nfs-utils", "auditd": "audit", "iproute2": "iproute", "libc6": "glibc", "dbus": "dbus-broker",
	}
	maps.Copy(all, more)
	return all
}

func filesOfFedoras(repository string) []base.File {
	return []base.File{
		{Path: "/etc/dnf/dnf.conf", Content: "[main]\ngpgcheck=True\ninstallonly_limit=3\nclean_requirements_on_remove=True\nbest=True\nskip_if_unavailable=False\n", Mode: 0o644},
		{Path: "/etc/yum.repos.d/" + repository + ".repo", Content: "[" + repository + "]\nname=" + repository + "\nbaseurl=http://" + aptmirror.Host + ":" + Port + "/\nenabled=1\ngpgcheck=1\nrepo_gpgcheck=1\ngpgkey=file://" + keyPath + "\n", Mode: 0o644},
		{Path: "/etc/systemd/system/sshd.service.d/keys.conf", Content: "[Service]\nExecStartPre=/usr/bin/ssh-keygen -A\n", Mode: 0o644},
		{Path: "/usr/bin/update-ca-trust", Content: updateTrust, Mode: 0o755},
		{Path: "/etc/pki/ca-trust/source/anchors/.keep", Mode: 0o644},
	}
}

// Flatcar is a machine of Flatcar Container Linux's shape: no package manager, a
// read-only /usr, containerd in a system extension whose drop-in of
// multi-user.target holds it up, services of updates, Ignition's files.
//
// cloud-init replaces Ignition and the agent for login keys. The extension is a
// folder instead of a squashfs, because machines of tests have no loop devices. The
// folder is outside of /usr: no layer of an overlay may be inside of another.
func Flatcar() Shape {
	return Shape{
		ID:    "flatcar",
		Suite: "trixie",
		Packages: []string{
			"systemd-resolved", "systemd-timesyncd", "conntrack", "ethtool", "ipset", "iptables", "nftables", "socat", "nfs-common",
		},
		Offered: []string{"containerd", "runc"},
		OSRelease: `NAME="Flatcar Container Linux by Kinvolk"
ID=flatcar
ID_LIKE=coreos
VERSION=4459.2.0
VERSION_ID=4459.2.0
BUILD_ID=2025-11-05-0000
SYSEXT_LEVEL=1.0
PRETTY_NAME="Flatcar Container Linux by Kinvolk 4459.2.0 (Oklo)"
ANSI_COLOR="38;5;75"
HOME_URL="https://flatcar.org/"
BUG_REPORT_URL="https://issues.flatcar.org"
FLATCAR_BOARD="amd64-usr"
CPE_NAME="cpe:2.3:o:flatcar-linux:flatcar_linux:4459.2.0:*:*:*:*:*:*:*"
`,
		User:    "core",
		Units:   map[string]string{"ssh.service": "sshd.service"},
		Enabled: []string{"sshd.service", "systemd-networkd.service", "systemd-resolved.service", "systemd-timesyncd.service", "systemd-sysext.service"},
		Files: []base.File{
			{Path: "/usr/lib/systemd/network/zz-default.network", Content: "[Network]\nDHCP=yes\n\n[Match]\nName=en* eth*\n", Mode: 0o644},
			{Path: "/usr/lib/systemd/networkd.conf.d/10-disable-route-mgmt.conf", Content: "[Network]\nManageForeignRoutingPolicyRules=no\nManageForeignRoutes=no\n", Mode: 0o644},
			{Path: "/usr/lib/systemd/system/ensure-sysext.service", Content: ensureSysext, Mode: 0o644},
			{Path: "/usr/lib/systemd/system/update-engine.service", Content: "[Unit]\nDescription=Update Engine\n\n[Service]\nExecStart=/usr/bin/sleep infinity\n\n[Install]\nWantedBy=multi-user.target\n", Mode: 0o644},
			{Path: "/usr/lib/systemd/system/locksmithd.service", Content: "[Unit]\nDescription=Cluster reboot manager\nRequires=update-engine.service\nAfter=update-engine.service\n\n[Service]\nExecStart=/usr/bin/sleep infinity\n\n[Install]\nWantedBy=multi-user.target\n", Mode: 0o644},
			{Path: "/etc/systemd/system/sshd.service.d/keys.conf", Content: "[Service]\nExecStartPre=/usr/bin/ssh-keygen -A\n", Mode: 0o644},
			{Path: "/etc/sudoers.d/path", Content: "Defaults secure_path=/opt/bin:/usr/sbin:/usr/bin:/sbin:/bin\n", Mode: 0o440},
			{Path: "/etc/.ignition-result.json", Content: "{\"provisioningBootID\":\"4cba5b7e-2e31-4b4a-94a0-0d1b4d5a2f6c\",\"provisioningDate\":\"2025-11-06T00:00:00Z\",\"userConfigProvided\":false}\n", Mode: 0o644},
			{Path: "/usr/share/oem/.keep", Mode: 0o644},
			{Path: "/oem/grub.cfg", Content: "set oem_id=\"ami\"\n", Mode: 0o644},
			{Path: "/oem/oem-release", Content: "ID=ami\nVERSION_ID=4459.2.0\nNAME=\"Amazon EC2\"\n", Mode: 0o644},
		},
		Links: map[string]string{
			"/etc/resolv.conf":                                                   "../run/systemd/resolve/resolv.conf",
			"/etc/extensions/" + sysext:                                          extensions + sysext,
			vendorWants + "update-engine.service":                                "../update-engine.service",
			vendorWants + "locksmithd.service":                                   "../locksmithd.service",
			"/usr/lib/systemd/system/sysinit.target.wants/ensure-sysext.service": "../ensure-sysext.service",
		},
		Removed:  []string{"/etc/systemd/system/ssh.service.d", "/usr/lib/systemd/system/ssh.socket"},
		manager:  sysextManager{},
		Revision: 1,
	}
}

const (
	// sysext is the extension with containerd:
	// https://github.com/flatcar/scripts/blob/main/build_library/sysext_prod_builder
	sysext      = "containerd-flatcar"
	extensions  = "/opt/extensions/"
	vendorWants = "/usr/lib/systemd/system/multi-user.target.wants/"
)

// ensureSysext starts the extensions' units:
// https://github.com/flatcar/init/blob/flatcar-master/systemd/system/ensure-sysext.service
const ensureSysext = `[Unit]
BindsTo=systemd-sysext.service
After=systemd-sysext.service
DefaultDependencies=no
ConditionDirectoryNotEmpty=|/etc/extensions

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/systemctl daemon-reload
ExecStart=/usr/bin/systemctl restart --no-block sockets.target timers.target multi-user.target

[Install]
WantedBy=sysinit.target
`

// sysextFiles are files of the extension:
// https://github.com/flatcar/scripts/blob/main/build_library/sysext_mangle_containerd-flatcar
// and sdk_container/src/third_party/coreos-overlay/coreos/sysext/containerd
// there.
func sysextFiles() []base.File {
	return []base.File{
		{Path: "/usr/lib/extension-release.d/extension-release." + sysext, Content: "ID=flatcar\nVERSION_ID=4459.2.0\n", Mode: 0o644},
		{Path: "/usr/lib/systemd/system/multi-user.target.d/10-containerd-service.conf", Content: "[Unit]\nUpholds=containerd.service\n", Mode: 0o644},
		{Path: "/usr/share/containerd/config.toml", Content: `version = 2
imports = ["/etc/containerd/conf.d/*.toml"]
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
address = "/run/containerd/containerd.sock"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = true
`, Mode: 0o644},
		{Path: "/usr/lib/systemd/system/containerd.service", Content: `[Unit]
Description=containerd container runtime
After=network.target

[Service]
Delegate=yes
Environment=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/opt/bin
Environment=CONTAINERD_CONFIG=/usr/share/containerd/config.toml
ExecStartPre=mkdir -p /run/docker/libcontainerd
ExecStartPre=ln -fs /run/containerd/containerd.sock /run/docker/libcontainerd/docker-containerd.sock
ExecStart=/usr/bin/containerd --config ${CONTAINERD_CONFIG}
KillMode=process
Type=notify
Restart=always
RestartSec=5
LimitNOFILE=1048576
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity

[Install]
WantedBy=multi-user.target
`, Mode: 0o644},
	}
}

// sysextManager puts the offered packages into the system extension. There is no
// package manager and no repository.
type sysextManager struct{}

func (sysextManager) packages() []string { return nil }
func (sysextManager) host() []string     { return nil }
func (sysextManager) isDebian() bool     { return false }

func (sysextManager) fill(ctx context.Context, _ Shape, folder string, _, offered []pkg) error {
	extension := filepath.Join(folder, "root", extensions, sysext)
	if err := os.MkdirAll(extension, 0o755); err != nil {
		return fmt.Errorf("making the system extension: %w", err)
	}
	for _, p := range offered {
		if err := command(ctx, "cp", "-a", filepath.Join(p.folder, "usr"), extension); err != nil {
			return err
		}
	}
	for _, f := range sysextFiles() {
		if err := f.Write(extension); err != nil {
			return err
		}
	}
	return os.MkdirAll(filepath.Join(folder, repositoryFolder), 0o755)
}
