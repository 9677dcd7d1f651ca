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
		list := base.File{Path: p.name + ".files", Content: lines.String(), Mode: 0o644}
		if err := base.Write(work, list); err != nil {
			return fmt.Errorf("building %s: %w", p.name, err)
		}
		fmt.Fprintf(&spec, "%%description -n %s\nnone\n%%files -n %[1]s", p.name)
		if lines.Len() > 0 { // rpmbuild refuses an empty list
			fmt.Fprintf(&spec, " -f %s", filepath.Join(work, list.Path))
		}
		spec.WriteString("\n")
	}
	if err := base.Write(work, base.File{Path: "shape.spec", Content: spec.String(), Mode: 0o644}); err != nil {
		return err
	}
	args := []string{"-bb", "--quiet", "--buildroot", filepath.Join(work, "root"), "--target", packageArch}
	for name, value := range map[string]string{
		"_topdir": work, "_rpmdir": filepath.Join(folder, name+".rpms"), "_build_name_fmt": "%%{NAME}-%%{VERSION}-%%{RELEASE}.rpm",
		"__os_install_post": "%{nil}", "debug_package": "%{nil}", "_unpackaged_files_terminate_build": "0", "_binary_payload": "w1.gzdio",
		"_rpmformat": "4", "_build_id_links": "none", "__brp_mangle_shebangs": "%{nil}",
	} {
		args = append(args, "--define", name+" "+value)
	}
	return command(ctx, "rpmbuild", append(args, filepath.Join(work, "shape.spec"))...)
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
	macros := base.File{Path: "etc/rpm/macros.shape", Content: "%_dbpath " + m.database + "\n", Mode: 0o644}
	if err := base.Write(root, macros); err != nil {
		return err
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
