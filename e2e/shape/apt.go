package shape

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine/aptmirror"
)

// aptManager offers packages as apt knows them. dpkg's database of the tree is
// Debian's own.
type aptManager struct {
	// suite is the code name of the release.
	suite string
	// keyring is where the tree has the public key.
	keyring string
}

func (aptManager) packages() []string { return []string{"apt", "gpgv"} }
func (aptManager) host() []string     { return []string{"gnupg"} }
func (aptManager) isDebian() bool     { return true }

func (m aptManager) fill(ctx context.Context, s Shape, folder string, _, offered []pkg) error {
	root, repository := filepath.Join(folder, "root"), filepath.Join(folder, repositoryFolder)
	pool, lists := filepath.Join(repository, "pool"), filepath.Join(repository, "dists", m.suite, "main/binary-amd64")
	for _, dir := range []string{pool, lists} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making the repository: %w", err)
		}
	}
	var index strings.Builder
	for _, p := range offered {
		entry, err := m.pack(ctx, p, pool)
		if err != nil {
			return err
		}
		index.WriteString(entry)
	}
	if err := os.WriteFile(filepath.Join(lists, "Packages"), []byte(index.String()), 0o644); err != nil {
		return fmt.Errorf("writing the list of packages: %w", err)
	}
	release := fmt.Sprintf("Origin: shape\nSuite: %s\nCodename: %[1]s\nDate: Sat, 25 Oct 2025 00:00:00 UTC\nArchitectures: amd64\nComponents: main\nSHA256:\n %x %d main/binary-amd64/Packages\n",
		m.suite, sha256.Sum256([]byte(index.String())), index.Len())
	plain := filepath.Join(repository, "dists", m.suite, "Release")
	if err := os.WriteFile(plain, []byte(release), 0o644); err != nil {
		return fmt.Errorf("writing the repository's Release: %w", err)
	}
	signer, err := newSigner(ctx, folder)
	if err != nil {
		return err
	}
	if err := signer.gpg(ctx, "--clear-sign", "--output", filepath.Join(filepath.Dir(plain), "InRelease"), plain); err != nil {
		return err
	}
	return signer.gpg(ctx, "--output", filepath.Join(root, m.keyring), "--export", packager)
}

// pack makes a package with the scripts of Debian's, and returns its entry in the
// list.
func (aptManager) pack(ctx context.Context, p pkg, pool string) (string, error) {
	control, err := os.ReadFile(filepath.Join(p.control, "control"))
	if err != nil {
		return "", fmt.Errorf("packing %s: %w", p.name, err)
	}
	if p.name != p.debian {
		control = []byte(strings.Replace(string(control), "Package: "+p.debian+"\n", "Package: "+p.name+"\n", 1))
	}
	conffiles := slices.DeleteFunc(slices.Clone(p.files), func(name string) bool {
		return !strings.HasPrefix(name, "/etc/") || strings.HasSuffix(name, "/")
	})
	for name, text := range map[string]string{"control": string(control), "conffiles": strings.Join(append(conffiles, ""), "\n")} {
		if err := os.WriteFile(filepath.Join(p.control, name), []byte(text), 0o644); err != nil {
			return "", fmt.Errorf("packing %s: %w", p.name, err)
		}
	}
	if err := os.Remove(filepath.Join(p.control, "md5sums")); err != nil && !os.IsNotExist(err) {
		return "", fmt.Errorf("packing %s: %w", p.name, err)
	}
	if err := os.Rename(p.control, filepath.Join(p.folder, "DEBIAN")); err != nil {
		return "", fmt.Errorf("packing %s: %w", p.name, err)
	}
	file := filepath.Join(pool, p.name+".deb")
	if err := command(ctx, "dpkg-deb", "-Zgzip", "-z1", "--build", p.folder, file); err != nil {
		return "", err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("packing %s: %w", p.name, err)
	}
	return fmt.Sprintf("%s\nFilename: pool/%s.deb\nSize: %d\nSHA256: %x\n\n", strings.TrimSpace(string(control)), p.name, len(content), sha256.Sum256(content)), nil
}

// Leap16 is a machine of openSUSE Leap 16's shape: zypper, NetworkManager with
// cloud-netconfig's dispatcher script, chronyd.
func Leap16() Shape {
	s := leap("16.0", "/usr/lib/NetworkManager/dispatcher.d/90-cloud-netconfig")
	s.ID = "opensuse-leap-16"
	s.Packages = append(s.Packages, "network-manager")
	s.Enabled = append(s.Enabled, "NetworkManager.service")
	s.Empty = append(s.Empty, "container-selinux")
	s.Files = append(s.Files,
		base.File{Path: "/etc/cloud/cloud.cfg.d/20_suse.cfg", Content: "system_info:\n  distro: opensuse\n  network:\n    renderers: [network-manager]\n", Mode: 0o644},
		base.File{Path: "/etc/selinux/config", Content: "SELINUX=disabled\nSELINUXTYPE=targeted\n", Mode: 0o644},
	)
	return s
}

// Leap15 is a machine of openSUSE Leap 15's shape: zypper, wicked with netconfig
// and cloud-netconfig, AppArmor's parser, chronyd. Debian has no wicked: a program
// of that name reads wicked's files and starts dhclient.
func Leap15() Shape {
	s := leap("15.6", "/etc/netconfig.d/cloud-netconfig")
	s.ID = "opensuse-leap-15"
	s.Packages = append(s.Packages, "isc-dhcp-client")
	s.Names["isc-dhcp-client"] = "dhcp-client"
	s.Enabled = append(s.Enabled, "wickedd.service", "wicked.service")
	file := func(path, content string) base.File { return base.File{Path: path, Content: content, Mode: 0o644} }
	program := func(path, content string) base.File { return base.File{Path: path, Content: content, Mode: 0o755} }
	s.Files = append(s.Files,
		// cloud-init asks for the second file; SUSE's asks for the first.
		file("/etc/sysconfig/network/config", "NETCONFIG_MODULES_ORDER=\"dns-resolver cloud-netconfig\"\n"),
		file("/etc/sysconfig/config", "# See network/config.\n"),
		file("/etc/sysconfig/network/ifcfg-lo", "STARTMODE=nfsroot\nBOOTPROTO=static\n"),
		file("/etc/sysconfig/network/ifcfg-eth0", "STARTMODE=auto\nBOOTPROTO=dhcp\nCLOUD_NETCONFIG_MANAGE=yes\n"),
		program("/usr/sbin/wicked", wicked),
		program("/usr/sbin/netconfig", netconfig),
		file("/usr/lib/systemd/system/wickedd.service", wickedd),
		file("/usr/lib/systemd/system/wicked.service", wickedUnit),
		file("/var/lib/wicked/.keep", ""),
		file("/etc/cloud/cloud.cfg.d/20_suse.cfg", "system_info:\n  distro: opensuse\n  network:\n    renderers: [sysconfig]\n"),
	)
	s.Own = append(s.Own,
		Own{Name: "wicked", Version: "0.6.77", Files: []string{"/usr/sbin/wicked", "/usr/sbin/ifup", "/usr/sbin/ifdown", "/usr/lib/systemd/system/wicked.service", "/usr/lib/systemd/system/wickedd.service", "/var/lib/wicked/"}},
		Own{Name: "sysconfig-netconfig", Version: "0.85.9", Files: []string{"/usr/sbin/netconfig", "/etc/sysconfig/network/config", "/etc/sysconfig/network/ifcfg-lo"}},
	)
	s.Links["/etc/resolv.conf"] = "../run/netconfig/resolv.conf"
	// Debian's ifupdown had files of these names.
	s.Script += "ln -s wicked /usr/sbin/ifup\nln -s wicked /usr/sbin/ifdown\n"
	return s
}

// leap is what the releases have in common. caller is the file that runs
// cloud-netconfig at every lease.
func leap(version, caller string) Shape {
	return Shape{
		Suite:    "trixie",
		Packages: []string{"chrony"},
		Offered:  append(offeredByFedoras(), "apparmor"),
		Names: map[string]string{
			"conntrack": "conntrack-tools", "nfs-common": "nfs-client", "auditd": "audit", "libc6": "glibc", "network-manager": "NetworkManager", "apparmor": "apparmor-parser",
		},
		Empty:     []string{"ca-certificates-mozilla"},
		OSRelease: "NAME=\"openSUSE Leap\"\nVERSION=\"" + version + "\"\nID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\nVERSION_ID=\"" + version + "\"\nPRETTY_NAME=\"openSUSE Leap " + version + "\"\nCPE_NAME=\"cpe:/o:opensuse:leap:" + version + "\"\n",
		User:      "ec2-user",
		Units:     map[string]string{"ssh.service": "sshd.service", "chrony.service": "chronyd.service"},
		Enabled:   []string{"sshd.service", "chronyd.service", "cloud-netconfig.timer"},
		Files: []base.File{
			{Path: "/etc/zypp/repos.d/repo-oss.repo", Content: "[repo-oss]\nname=repo-oss\nenabled=1\nautorefresh=1\nbaseurl=http://" + aptmirror.Host + ":" + Port + "/\ngpgcheck=1\nrepo_gpgcheck=1\npkg_gpgcheck=1\ngpgkey=file://" + keyPath + "\n", Mode: 0o644},
			{Path: "/etc/systemd/system/sshd.service.d/keys.conf", Content: "[Service]\nExecStartPre=/usr/bin/ssh-keygen -A\n", Mode: 0o644},
			{Path: "/etc/pki/trust/anchors/.keep", Mode: 0o644},
			{Path: "/usr/sbin/update-ca-certificates", Content: updateTrustOfSUSE, Mode: 0o755},
			{Path: cloudNetconfig, Content: cloudNetconfigProgram, Mode: 0o755},
			{Path: caller, Content: "#!/bin/sh\nexec " + cloudNetconfig + "\n", Mode: 0o755},
			{Path: "/usr/lib/systemd/system/cloud-netconfig.service", Content: "[Service]\nType=oneshot\nExecStart=" + cloudNetconfig + "\n", Mode: 0o644},
			{Path: "/usr/lib/systemd/system/cloud-netconfig.timer", Content: "[Timer]\nOnBootSec=1\nOnUnitActiveSec=60\n\n[Install]\nWantedBy=timers.target\n", Mode: 0o644},
			{Path: "/usr/lib/udev/rules.d/51-cloud-netconfig-hotplug.rules", Content: `SUBSYSTEM=="net", KERNEL=="eth*", RUN+="` + cloudNetconfig + "\"\n", Mode: 0o644},
		},
		Own: []Own{
			{Name: "openSUSE-release", Version: version, Provides: []string{"distribution-release"}, Files: []string{"/usr/lib/os-release", "/etc/os-release"}},
			{Name: "cloud-netconfig-ec2", Version: "1.20", Provides: []string{"cloud-netconfig"}, Files: []string{
				cloudNetconfig, caller, "/usr/lib/systemd/system/cloud-netconfig.service", "/usr/lib/systemd/system/cloud-netconfig.timer", "/usr/lib/udev/rules.d/51-cloud-netconfig-hotplug.rules",
			}},
		},
		Removed: append([]string{"/etc/systemd/system/ssh.service.d", "/usr/lib/systemd/system/ssh.socket"}, noNetworkd()...),
		Links:   map[string]string{"/var/lib/rpm": "../../usr/lib/sysimage/rpm"}, // as on SUSE; libzypp prefers an existing /var/lib/rpm
		Script:  "update-ca-certificates\n" + cloudInitAfterDBus,
		manager: rpmManager{programs: []string{"zypper"}, database: "/usr/lib/sysimage/rpm"},
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

// cloudNetconfig is SUSE's program that sets secondary addresses, which are pods'
// on a node. Here it cuts a node's connection, so a node on which it runs cannot
// join.
const cloudNetconfig = "/usr/libexec/cloud-netconfig/cloud-netconfig"

const cloudNetconfigProgram = `#!/bin/sh
[ ! -e /etc/eks/eksnode/manifest.json ] || ip link set dev eth0 down
`

// wicked starts the interfaces that have a file, as the real program does. Like it,
// it gives an interface the address LLADDR.
const wicked = `#!/bin/sh
set -e
mkdir -p /run/netconfig
for file in /etc/sysconfig/network/ifcfg-*; do
  device=${file##*/ifcfg-}
  [ -e "/sys/class/net/$device" ] && [ "$device" != lo ] || continue
  STARTMODE=manual BOOTPROTO=static LLADDR=
  . "$file"
  [ "$STARTMODE" = auto ] || [ "$STARTMODE" = hotplug ] || continue
  [ -z "$LLADDR" ] || ip link set dev "$device" address "$LLADDR"
  ip link set dev "$device" up
  case $BOOTPROTO in dhcp|dhcp4)
    dhclient -q -1 -lf "/var/lib/wicked/lease-$device-dhcp-ipv4" -pf "/run/wicked-$device.pid" "$device"
    netconfig modify
  esac
done
`

// netconfig runs modules as the real program does: those that are executable.
// dhclient has written the name servers.
const netconfig = `#!/bin/sh
. /etc/sysconfig/network/config
for module in $NETCONFIG_MODULES_ORDER; do
  [ ! -x "/etc/netconfig.d/$module" ] || "/etc/netconfig.d/$module"
done
`

const wickedd = `[Unit]
Description=wicked network management service daemon
DefaultDependencies=no
After=local-fs.target network-pre.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true

[Install]
WantedBy=wicked.service
`

const wickedUnit = `[Unit]
Description=wicked managed network interfaces
DefaultDependencies=no
Wants=network.target wickedd.service
After=wickedd.service network-pre.target cloud-init-local.service
Before=network.target network-online.target cloud-init-network.service shutdown.target
Conflicts=shutdown.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/sbin/wicked ifup all

[Install]
WantedBy=multi-user.target network-online.target
Alias=network.service
`
