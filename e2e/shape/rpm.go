package shape

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
)

// rpmManager registers and offers packages as rpm knows them.
type rpmManager struct {
	// programs are Debian's packages of the package manager.
	programs []string
	// database is the folder of rpm's database.
	database string
}

func (m rpmManager) packages() []string { return append([]string{"rpm"}, m.programs...) }
func (rpmManager) host() []string       { return []string{"rpm", "createrepo-c", "gnupg"} }
func (rpmManager) isDebian() bool       { return false }

// keyPath is where the tree has the public key.
const keyPath = "/etc/pki/rpm-gpg/RPM-GPG-KEY-packager"

func (m rpmManager) fill(ctx context.Context, s Shape, folder string, installed, offered []pkg) error {
	root, repository := filepath.Join(folder, "root"), filepath.Join(folder, repositoryFolder)
	signer, err := newSigner(ctx, folder)
	if err != nil {
		return err
	}
	known := known(append(slices.Clone(installed), offered...))
	var copies strings.Builder
	for _, p := range offered {
		fmt.Fprintf(&copies, "cp -a '%s/.' %%{buildroot}/\n", p.folder)
	}
	if err := m.build(ctx, folder, "offered", copies.String(), offered, known); err != nil {
		return err
	}
	if err := m.build(ctx, folder, "installed", fmt.Sprintf("cp -a '%s/.' %%{buildroot}/\n", root), installed, known); err != nil {
		return err
	}
	if err := m.publish(ctx, filepath.Join(folder, "offered.rpms"), repository, signer); err != nil {
		return err
	}
	if err := signer.export(ctx, filepath.Join(root, keyPath)); err != nil {
		return err
	}
	return m.register(ctx, s, root, filepath.Join(folder, "installed.rpms"))
}

// build builds packages from files that a script copies to their places.
func (m rpmManager) build(ctx context.Context, folder, name, copies string, all []pkg, known map[string]string) error {
	work := filepath.Join(folder, name+".build")
	if err := os.MkdirAll(work, 0o755); err != nil {
		return fmt.Errorf("building packages: %w", err)
	}
	var spec strings.Builder
	fmt.Fprintf(&spec, "Name: shape-%s\nVersion: 1\nRelease: 1\nSummary: none\nLicense: none\nAutoReqProv: no\n%%description\nnone\n%%install\nmkdir -p %%{buildroot}\n%s", name, copies)
	owned := map[string]bool{}
	for _, p := range all {
		fmt.Fprintf(&spec, "%%package -n %s\nVersion: %s\nRelease: 1\nSummary: %s\nAutoReqProv: no\n", p.name, p.version,
			cmp.Or(p.summary, p.name, "none"))
		for _, need := range p.needs(known) {
			fmt.Fprintf(&spec, "Requires: %s\n", need)
		}
		for _, provided := range p.provides {
			if provided != p.name {
				fmt.Fprintf(&spec, "Provides: %s\n", provided)
			}
		}
		list := filepath.Join(work, p.name+".files")
		var lines strings.Builder
		for _, file := range p.files {
			if owned[file] && !strings.HasSuffix(file, "/") || strings.ContainsAny(file, "\"*?{[") {
				continue
			}
			owned[file] = true
			quoted := `"` + strings.ReplaceAll(strings.TrimSuffix(file, "/"), "%", "%%") + `"`
			switch {
			case strings.HasSuffix(file, "/"):
				quoted = "%dir " + quoted
			case strings.HasPrefix(file, "/etc/"):
				quoted = "%config(noreplace) " + quoted
			}
			lines.WriteString(quoted + "\n")
		}
		if err := os.WriteFile(list, []byte(lines.String()), 0o644); err != nil {
			return fmt.Errorf("building %s: %w", p.name, err)
		}
		fmt.Fprintf(&spec, "%%description -n %s\nnone\n%%files -n %[1]s", p.name)
		if lines.Len() > 0 { // rpmbuild refuses an empty list
			fmt.Fprintf(&spec, " -f %s", list)
		}
		spec.WriteString("\n")
	}
	path := filepath.Join(work, "shape.spec")
	if err := os.WriteFile(path, []byte(spec.String()), 0o644); err != nil {
		return fmt.Errorf("building packages: %w", err)
	}
	args := []string{"-bb", "--quiet", "--buildroot", filepath.Join(work, "root"), "--target", packageArch}
	for name, value := range map[string]string{
		"_topdir": work, "_rpmdir": filepath.Join(folder, name+".rpms"), "_build_name_fmt": "%%{NAME}-%%{VERSION}-%%{RELEASE}.rpm",
		"__os_install_post": "%{nil}", "debug_package": "%{nil}", "_unpackaged_files_terminate_build": "0", "_binary_payload": "w1.gzdio",
		"_rpmformat": "4", "_build_id_links": "none", "__brp_mangle_shebangs": "%{nil}",
	} {
		args = append(args, "--define", name+" "+value)
	}
	return command(ctx, "rpmbuild", append(args, path)...)
}

// publish makes a signed repository of packages.
func (rpmManager) publish(ctx context.Context, from, to string, signer signer) error {
	packages, err := filepath.Glob(filepath.Join(from, "*.rpm"))
	if err != nil || len(packages) == 0 {
		return fmt.Errorf("publishing the packages: none in %s", from)
	}
	if err := command(ctx, "rpmsign", append([]string{"--define", "_gpg_name " + packager, "--define", "_gpg_path " + signer.home, "--define", "__gpg /usr/bin/gpg", "--addsign"}, packages...)...); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("publishing the packages: %w", err)
	}
	if err := command(ctx, "createrepo_c", "--quiet", to); err != nil {
		return err
	}
	if err := signer.export(ctx, filepath.Join(to, "repodata/repomd.xml.key")); err != nil { // zypper compares the key with rpm's
		return err
	}
	return signer.gpg(ctx, "--armor", "--detach-sign", "--output", filepath.Join(to, "repodata/repomd.xml.asc"), filepath.Join(to, "repodata/repomd.xml"))
}

func (m rpmManager) register(ctx context.Context, s Shape, root, packages string) error {
	for path, text := range map[string]string{"etc/rpm/macros.shape": "%_dbpath " + m.database + "\n"} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755); err != nil {
			return fmt.Errorf("registering packages: %w", err)
		}
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
			return fmt.Errorf("registering packages: %w", err)
		}
	}
	inside := filepath.Join(root, "installed.rpms")
	if err := os.Rename(packages, inside); err != nil {
		return fmt.Errorf("registering packages: %w", err)
	}
	err := s.run(ctx, root, "registration", fmt.Sprintf(`mkdir -p %s
rpm --initdb
rpm -i --justdb --nodeps --noscripts --nosignature --nodigest --replacefiles /installed.rpms/*.rpm
rpm --import %s
rm -r /installed.rpms
`, m.database, keyPath))
	return err
}

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
