package base

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine/aptmirror"
)

// File is a file that a recipe writes into the tree.
type File struct {
	Path    string // absolute path on the machine
	Content string
	Mode    fs.FileMode
}

// recipe defines a base system completely; its hash is the cache key.
type recipe struct {
	Suite    string
	Variant  string `json:",omitempty"` // variant of mmdebstrap; "important" when empty
	Packages []string
	Excluded []string // globs of paths that dpkg does not unpack
	Purged   []string
	Removed  []string // paths to remove
	Files    []File
	Links    map[string]string // path: target
	Loader   []string          // modules of the boot loader's core image
	Revision int               // increases when the code that carries out the recipe changes
	Offered  []string          `json:",omitempty"` // downloaded with their dependencies, not installed
	Fetched  []string          `json:",omitempty"` // downloaded without their dependencies
	Pinned   map[string]string `json:",omitempty"` // suites by source package
}

// OfferedFolder is the folder of a tree for packages that were only downloaded.
const OfferedFolder = "offered"

// Plain returns a tree with these packages. It downloads the offered packages with
// their dependencies, and the fetched ones alone, into OfferedFolder. Pinned source
// packages come from another suite.
func (d Debian) Plain(ctx context.Context, packages, offered, fetched []string, pinned map[string]string, log io.Writer) (string, error) {
	cache, err := Cache()
	if err != nil {
		return "", err
	}
	d.Cache = cache
	return d.prepare(ctx, recipe{Suite: d.Suite, Packages: packages, Offered: offered, Fetched: fetched, Pinned: pinned, Excluded: newRecipe(d.Suite).Excluded}, log)
}

// newRecipe returns the recipe of a suite: the contents of Debian's own cloud
// image for EC2 that matter for imaging.
func newRecipe(suite string) recipe {
	return recipe{
		Suite: suite,
		Packages: []string{
			"systemd-sysv", "dbus", "openssh-server", "sudo", "cloud-init",
			"netplan.io", "systemd-resolved", "systemd-timesyncd", "iproute2",
			"ca-certificates", "curl", "gzip", "util-linux", "procps", "kmod", "acl",
			"linux-image-cloud-amd64", "initramfs-tools", "zstd",
			"grub-pc-bin", "grub-common", "grub2-common",
		},
		// Translations and manuals are a tenth of the tree, and each capture would
		// copy them. The copyright files stay.
		Excluded: []string{
			"/usr/share/locale/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/doc/*",
		},
		// The cloud image uses netplan and networkd. With ifupdown present,
		// cloud-init would write /etc/network/interfaces.d instead.
		Purged: []string{"ifupdown"},
		Removed: []string{
			"/etc/hostname", "/etc/resolv.conf", "/var/lib/dbus/machine-id",
			"/etc/ssh/ssh_host_*", "/etc/dpkg/dpkg.cfg.d/99mmdebstrap", "/etc/apt/apt.conf.d/99mmdebstrap",
			"/var/lib/systemd/random-seed", "/vmlinuz.old", "/initrd.img.old",
			// These units would start apt in the middle of a build.
			"/etc/systemd/system/timers.target.wants/apt-daily*.timer",
			"/var/log/alternatives.log", "/var/log/bootstrap.log", "/var/log/dpkg.log", "/var/log/apt/*",
			"/var/cache/ldconfig/aux-cache", "/etc/.pwd.lock",
			"/etc/passwd-", "/etc/group-", "/etc/shadow-", "/etc/gshadow-", "/etc/subuid-", "/etc/subgid-",
		},
		Files: files(suite),
		Links: map[string]string{"/etc/resolv.conf": "../run/systemd/resolve/stub-resolv.conf"},
		Loader: []string{
			"biosdisk", "part_msdos", "ext2", "normal", "configfile", "linux", "echo", "serial", "terminal", "test",
		},
		Revision: 1,
	}
}

func files(suite string) []File {
	return []File{
		{"/etc/machine-id", "", 0o644},
		{"/etc/fstab", "", 0o644},
		{"/etc/hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n", 0o644},
		{"/etc/apt/sources.list", sources(suite), 0o644},
		{"/etc/netplan/90-default.yaml", netplan, 0o600},
		{"/etc/cloud/cloud.cfg.d/01_debian_cloud.cfg", cloudConfig, 0o644},
		{grubFolder + "/grub.cfg", grubConfig, 0o644},
	}
}

// sources names the harness's mirror. The dates are not checked, because the
// mirror may serve a cache that is older than the archive's Valid-Until. The
// signatures are checked.
func sources(suite string) string {
	var text strings.Builder
	entries := []struct{ archive, suite string }{{"debian", suite}}
	if suite != "unstable" {
		entries = append(entries, []struct{ archive, suite string }{{"debian", suite + "-updates"}, {"debian-security", suite + "-security"}}...)
	}
	for _, entry := range entries {
		fmt.Fprintf(&text, "deb [check-valid-until=no check-date=no] %s %s main\n",
			aptmirror.Source(entry.archive), entry.suite)
	}
	return text.String()
}

// netplan is the cloud image's configuration: any Ethernet port, DHCP.
const netplan = `network:
  version: 2
  ethernets:
    all-en:
      match: {name: "en*"}
      dhcp4: true
      dhcp4-overrides: {use-domains: true}
    all-eth:
      match: {name: "eth*"}
      dhcp4: true
      dhcp4-overrides: {use-domains: true}
`

// cloudConfig holds the differences between Debian's EC2 image and the defaults
// of cloud-init: the user's name is admin. The list of data sources is short,
// and locale generation is off, because each would add seconds to a boot.
const cloudConfig = `system_info:
  default_user:
    name: admin
    gecos: Debian
    lock_passwd: true
    groups: [adm, sudo]
    sudo: ["ALL=(ALL) NOPASSWD:ALL"]
    shell: /bin/bash
apt:
  preserve_sources_list: true
locale: false
datasource_list: [NoCloud, Ec2, None]
`

// grubFolder holds the boot loader's configuration and the two images that
// grub-install makes: boot.img for the disk's first sector, core.img for the
// following ones.
const (
	grubFolder = "/boot/grub"
	grubImages = grubFolder + "/i386-pc"
)

// grubConfig boots the kernel that the /vmlinuz link names, so that a new
// kernel needs no change here. It mounts the root with rw because the fstab is
// empty.
const grubConfig = `serial --unit=0 --speed=115200
terminal_output serial
set timeout=0
menuentry "Debian" {
  linux /vmlinuz root=LABEL=` + RootLabel + ` rw console=tty0 console=ttyS0,115200 quiet
  initrd /initrd.img
}
`

// RootLabel is the label of the root file system of a disk image. The base
// system's boot loader finds the file system by this label.
const RootLabel = "root"

// key names the recipe's result in the cache.
func (r recipe) key() (string, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("computing the base system's key: %w", err)
	}
	sum := sha256.Sum256(text)
	return r.Suite + "-" + hex.EncodeToString(sum[:8]), nil
}
