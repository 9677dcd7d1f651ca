// Package shape makes base systems of other distributions' shapes.
//
// No registry offers the packages of Arch, Amazon Linux and the others to tests,
// but Debian has their real package managers. A shape is Debian's programs under
// another distribution's os-release, package names, file layout, network stack
// and clock. The distribution's own package manager owns every file, and installs
// from a signed repository that is made of Debian's packages.
//
// A test on a shape does not prove anything about the distribution's own kernel,
// boot loader, SELinux policy, or package scripts.
package shape

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
)

// Shape describes a base system. Lists of packages have Debian's names.
type Shape struct {
	// ID is the distribution's in package distros.
	ID string
	// Suite is the Debian release that the programs come from.
	Suite string
	// Packages are installed, beside those of every shape.
	Packages []string
	// Offered are in the repository, with all that they depend on.
	Offered []string
	// Fetched are only downloaded: Fill takes files out of them.
	Fetched []string
	// Pinned are source packages from another suite.
	Pinned map[string]string
	// Names are the distribution's names of Debian's packages, where they differ.
	Names map[string]string
	// Empty are packages in the repository that the distribution has and Debian has not.
	Empty []string
	// Made are more of them, with files.
	Made []Made
	// Own are installed packages that the distribution has and Debian has not.
	Own []Own
	// OneBin says that /usr/sbin is a link to /usr/bin.
	OneBin bool
	// OSRelease is the content of /etc/os-release.
	OSRelease string
	// User is cloud-init's default user.
	User string
	// Units are the distribution's names of Debian's units, where they differ.
	Units map[string]string
	// Enabled and Disabled are units, by the distribution's names.
	Enabled, Disabled []string
	// Removed are globs of files that the distribution has not.
	Removed []string
	Files   []base.File
	// Links are symbolic links, path to target.
	Links map[string]string
	// Script runs in the finished tree.
	Script string

	manager manager
	// Revision counts changes of the code that makes the tree.
	Revision int
}

// Own is an installed package of files that the shape writes.
type Own struct {
	Name, Version string
	// Provides are other names, with versions where they matter.
	Provides []string
	Files    []string
}

// Made is a package that stands in for one of the distribution or of others.
type Made struct {
	Name, Version string
	Needs         []string
	Files         []base.File
}

// manager makes a package manager's database and a signed repository.
type manager interface {
	// packages are Debian's, which the manager itself needs.
	packages() []string
	// host are those that the host needs to build the repository.
	host() []string
	// fill makes the repository in folder/repository from the offered packages,
	// and registers the installed ones in the tree folder/root.
	fill(ctx context.Context, s Shape, folder string, installed, offered []pkg) error
	// isDebian says that the distribution is a descendant of Debian, with its
	// database of packages.
	isDebian() bool
}

// Port is where the lab serves the repository, at [aptmirror.Host].
const Port = "8081"

// Prepare returns the tree and the repository of the shape, making them when the
// cache has none (about a minute).
func (s Shape) Prepare(ctx context.Context, log io.Writer) (root, repository string, err error) {
	if err := base.Install(ctx, log, s.manager.host()...); err != nil {
		return "", "", err
	}
	debian, err := (base.Debian{Suite: s.Suite}).Plain(ctx, s.installed(), s.Offered, s.Fetched, s.Pinned, log)
	if err != nil {
		return "", "", err
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%s %+v", debian, s))
	folder, err := base.Cached(ctx, s.ID+"-"+hex.EncodeToString(key[:8]), log, func(folder string) error {
		if err := command(ctx, "cp", "-a", debian, filepath.Join(folder, "root")); err != nil {
			return err
		}
		return s.finish(ctx, folder)
	})
	return filepath.Join(folder, "root"), filepath.Join(folder, repositoryFolder), err
}

const repositoryFolder = "repository"

func (s Shape) installed() []string {
	all := []string{
		"systemd-sysv", "dbus", "openssh-server", "openssh-client", "openssh-sftp-server", "sudo", "cloud-init", "iproute2", "ca-certificates", "curl", "gzip",
		"util-linux", "procps", "kmod", "acl",
	}
	return append(append(all, s.Packages...), s.manager.packages()...)
}

// finish turns Debian's tree below folder/root into the distribution's.
func (s Shape) finish(ctx context.Context, folder string) error {
	root := filepath.Join(folder, "root")
	installed, err := installedPackages(root)
	if err != nil {
		return err
	}
	offered, err := unpackOffered(ctx, root, folder, append(s.Fetched, names(installed)...))
	if err != nil {
		return err
	}
	made, err := s.make(folder)
	if err != nil {
		return fmt.Errorf("making packages of the shape %s: %w", s.ID, err)
	}
	offered = append(offered, made...)
	for _, own := range s.Own { // before Debian's packages, which may have had the same files
		installed = append([]pkg{{name: own.Name, debian: own.Name, version: own.Version, provides: own.Provides, files: own.Files}}, installed...)
	}
	steps := []func() error{
		func() error { return s.fetched(ctx, root) },
		func() error { return os.RemoveAll(filepath.Join(root, base.OfferedFolder)) },
		func() error { return s.layOut(root) },
		func() error { return s.layOutOffered(offered) },
		func() error {
			return s.manager.fill(ctx, s, folder, s.renamed(root, installed), s.renamed("", offered))
		},
		func() error { return s.removeDebian(root) },
		func() error { return s.run(ctx, root, "final", s.finalScript()) },
		func() error { return os.RemoveAll(filepath.Join(folder, offeredFolder)) },
		func() error { return os.RemoveAll(filepath.Join(folder, controlFolder)) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("making the shape %s: %w", s.ID, err)
		}
	}
	return nil
}

// make makes the packages that Debian has not.
func (s Shape) make(folder string) (all []pkg, err error) {
	for _, name := range s.Empty {
		s.Made = append(s.Made, Made{Name: name, Version: "1"})
	}
	for _, m := range s.Made {
		p := pkg{
			name: m.Name, debian: m.Name, version: m.Version, summary: m.Name,
			folder:  filepath.Join(folder, offeredFolder, m.Name),
			control: filepath.Join(folder, controlFolder, m.Name),
		}
		control := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: amd64\n"+
			"Maintainer: Packager <%s>\nDescription: %[1]s\n", m.Name, m.Version, packager)
		for _, need := range m.Needs {
			p.depends = append(p.depends, []string{need})
		}
		if len(m.Needs) > 0 {
			control += "Depends: " + strings.Join(m.Needs, ", ") + "\n"
		}
		err = errors.Join(err, os.MkdirAll(p.folder, 0o755),
			base.Write(p.control, base.File{Path: "control", Content: control, Mode: 0o644}),
			base.Write(p.folder, m.Files...))
		all = append(all, p)
	}
	return all, err
}

// fetched unpacks the packages that are only downloaded into the tree.
func (s Shape) fetched(ctx context.Context, root string) error {
	for _, name := range s.Fetched {
		files, err := filepath.Glob(filepath.Join(root, base.OfferedFolder, name+"_*.deb"))
		if err != nil || len(files) != 1 {
			return fmt.Errorf("looking for the downloaded %s: %q, %v", name, files, err)
		}
		if err := command(ctx, "dpkg-deb", "-x", files[0], root); err != nil {
			return err
		}
	}
	return nil
}

// layOut gives the tree the distribution's layout.
func (s Shape) layOut(root string) error {
	if s.OneBin {
		if err := mergeBin(root); err != nil {
			return err
		}
	}
	if err := base.RemoveAll(root, append(s.Removed, s.removed()...)); err != nil {
		return err
	}
	files := append([]base.File{
		{Path: "/usr/lib/os-release", Content: s.OSRelease, Mode: 0o644},
		{Path: "/etc/cloud/cloud.cfg.d/10_shape.cfg", Content: cloudConfig(s.User), Mode: 0o644},
		{Path: "/etc/machine-id", Mode: 0o644},
		{Path: "/etc/fstab", Mode: 0o644},
		{Path: "/etc/hosts", Content: "127.0.0.1 localhost\n::1 localhost\n", Mode: 0o644},
	}, s.Files...)
	if err := base.Write(root, files...); err != nil {
		return err
	}
	links := map[string]string{"/etc/os-release": "../usr/lib/os-release"}
	maps.Copy(links, s.Links)
	for path, target := range links {
		if err := relink(filepath.Join(root, path), target); err != nil {
			return err
		}
	}
	return s.renameUnits(root)
}

func relink(path, target string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("linking %s: %w", path, err)
	}
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("linking %s: %w", path, err)
	}
	return os.Symlink(target, path)
}
