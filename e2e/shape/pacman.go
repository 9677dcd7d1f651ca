package shape

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// pacmanManager registers and offers packages as pacman knows them.
type pacmanManager struct{}

func (pacmanManager) packages() []string { return []string{"pacman-package-manager", "gnupg", "zstd"} }
func (pacmanManager) host() []string     { return []string{"gnupg", "zstd", "libarchive-tools"} }
func (pacmanManager) isDebian() bool     { return false }

const (
	// packager signs the repository. Its key is made with the tree.
	packager    = "packager@eksnode.test"
	keyFile     = "packager.asc"
	databaseOf  = "core"
	packageArch = "x86_64"
)

func (m pacmanManager) fill(ctx context.Context, s Shape, folder string, installed, offered []pkg) error {
	root, repository := filepath.Join(folder, "root"), filepath.Join(folder, repositoryFolder)
	if err := os.MkdirAll(repository, 0o755); err != nil {
		return fmt.Errorf("making the repository: %w", err)
	}
	signer, err := newSigner(ctx, folder)
	if err != nil {
		return err
	}
	known := known(append(slices.Clone(installed), offered...))
	var database []string // pairs of name and content
	offer := func(p pkg) error {
		file := fmt.Sprintf("%s-%s-1-%s.pkg.tar.zst", p.name, p.version, packageArch)
		if err := m.pack(ctx, p, known, filepath.Join(repository, file)); err != nil {
			return err
		}
		signature, err := signer.sign(ctx, filepath.Join(repository, file))
		if err != nil {
			return err
		}
		content, err := os.ReadFile(filepath.Join(repository, file))
		if err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		sum := sha256.Sum256(content)
		desc := m.desc(p, known, [][2]string{
			{"FILENAME", file}, {"CSIZE", fmt.Sprint(len(content))}, {"ISIZE", fmt.Sprint(p.size)}, {"SHA256SUM", fmt.Sprintf("%x", sum)}, {"PGPSIG", base64.StdEncoding.EncodeToString(signature)},
		})
		database = append(database, p.name+"-"+p.version+"-1/desc", desc)
		return nil
	}
	for _, p := range offered {
		if err := offer(p); err != nil {
			return err
		}
	}
	list := filepath.Join(repository, databaseOf+".db")
	if err := os.WriteFile(list, testkit.Gzip(testkit.Tar(0o644, database...)), 0o644); err != nil {
		return err
	}
	if _, err := signer.sign(ctx, list); err != nil {
		return err
	}
	if err := signer.export(ctx, filepath.Join(root, "usr/share/pacman/keyrings", keyFile)); err != nil {
		return err
	}
	return m.register(root, installed, known)
}

// known are the names that packages have or provide, by Debian's names.
func known(all []pkg) map[string]string {
	list := map[string]string{}
	for _, p := range all {
		for _, name := range p.provides {
			list[name] = p.name
		}
	}
	for _, p := range all {
		list[p.debian] = p.name
	}
	return list
}

// needs are a package's dependencies that exist, by the distribution's names.
func (p pkg) needs(known map[string]string) []string {
	var all []string
	for _, alternatives := range p.depends {
		for _, debian := range alternatives {
			if name := known[debian]; name != "" {
				if name != p.name {
					all = append(all, name)
				}
				break
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (pacmanManager) pack(ctx context.Context, p pkg, known map[string]string, to string) error {
	var info strings.Builder
	fmt.Fprintf(&info, "pkgname = %s\npkgbase = %[1]s\nxdata = pkgtype=pkg\npkgver = %s-1\npkgdesc = %s\nurl = https://eksnode.test\nbuilddate = 1700000000\npackager = Packager <%s>\nsize = %d\narch = %s\nlicense = custom\n",
		p.name, p.version, p.summary, packager, p.size, packageArch)
	for _, name := range p.needs(known) {
		fmt.Fprintf(&info, "depend = %s\n", name)
	}
	for _, name := range backups(p) {
		fmt.Fprintf(&info, "backup = %s\n", strings.TrimPrefix(name, "/"))
	}
	if err := base.Write(p.folder, base.File{Path: ".PKGINFO", Content: info.String(), Mode: 0o644}); err != nil {
		return fmt.Errorf("packing %s: %w", p.name, err)
	}
	cmd := exec.CommandContext(ctx, "sh", "-euc", `cd "$0"; bsdtar --create --file .MTREE --gzip --format=mtree --options='!all,use-set,type,uid,gid,mode,time,size,sha256,link' .PKGINFO $(ls -A | grep -v '^\.')
bsdtar --create --no-fflags --file - .PKGINFO .MTREE $(ls -A | grep -v '^\.') | zstd -q -1 > "$1"`, p.folder, to)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("packing %s: %w: %s", p.name, err, tail(out))
	}
	return nil
}

// backups are the configuration files of a package.
func backups(p pkg) []string {
	return slices.DeleteFunc(slices.Clone(p.files), func(name string) bool {
		return !strings.HasPrefix(name, "/etc/") || strings.HasSuffix(name, "/")
	})
}

// desc describes a package in a database.
func (pacmanManager) desc(p pkg, known map[string]string, more [][2]string) string {
	var b strings.Builder
	field := func(name string, values ...string) {
		if len(values) > 0 {
			fmt.Fprintf(&b, "%%%s%%\n%s\n\n", name, strings.Join(values, "\n"))
		}
	}
	field("NAME", p.name)
	field("VERSION", p.version+"-1")
	field("BASE", p.name)
	field("DESC", p.summary)
	field("ARCH", packageArch)
	field("BUILDDATE", "1700000000")
	field("PACKAGER", "Packager <"+packager+">")
	for _, f := range more {
		field(f[0], f[1])
	}
	field("DEPENDS", p.needs(known)...)
	return b.String()
}

// register writes pacman's database of installed packages.
func (m pacmanManager) register(root string, installed []pkg, known map[string]string) error {
	local := filepath.Join(root, "var/lib/pacman/local")
	if err := base.Write(local, base.File{Path: "ALPM_DB_VERSION", Content: "9\n", Mode: 0o644}); err != nil {
		return err
	}
	owned := map[string]bool{}
	for _, p := range installed {
		// Renamed files may collide: the first package has them.
		files := slices.DeleteFunc(slices.Clone(p.files), func(name string) bool {
			taken := owned[name] && !strings.HasSuffix(name, "/")
			owned[name] = true
			return taken
		})
		var b strings.Builder
		b.WriteString("%FILES%\n")
		for _, name := range files {
			b.WriteString(strings.TrimPrefix(name, "/") + "\n")
		}
		b.WriteString("\n")
		list := slices.DeleteFunc(backups(p), func(name string) bool {
			info, err := os.Lstat(filepath.Join(root, name))
			return err != nil || !info.Mode().IsRegular()
		})
		if len(list) > 0 {
			b.WriteString("%BACKUP%\n")
			for _, name := range list {
				content, err := os.ReadFile(filepath.Join(root, name))
				if err != nil {
					return fmt.Errorf("registering %s: %w", p.name, err)
				}
				fmt.Fprintf(&b, "%s\t%x\n", strings.TrimPrefix(name, "/"), md5.Sum(content))
			}
			b.WriteString("\n")
		}
		desc := m.desc(p, known, [][2]string{{"INSTALLDATE", "1700000000"}, {"SIZE", "1"}, {"VALIDATION", "pgp"}})
		err := base.Write(filepath.Join(local, p.name+"-"+p.version+"-1"),
			base.File{Path: "desc", Content: desc, Mode: 0o644},
			base.File{Path: "files", Content: b.String(), Mode: 0o644})
		if err != nil {
			return fmt.Errorf("registering %s: %w", p.name, err)
		}
	}
	return nil
}

// signer is a key of its own in a folder of its own.
type signer struct{ home string }

func newSigner(ctx context.Context, folder string) (signer, error) {
	home, err := os.MkdirTemp("", "shape-gpg-") // a socket's path is short
	if err != nil {
		return signer{}, fmt.Errorf("making a key: %w", err)
	}
	s := signer{home}
	context.AfterFunc(ctx, func() { _ = os.RemoveAll(home) })
	return s, s.gpg(ctx, "--passphrase", "", "--quick-generate-key", "Packager <"+packager+">", "rsa3072", "sign", "never")
}

func (s signer) gpg(ctx context.Context, args ...string) error {
	return command(ctx, "gpg", append([]string{"--homedir", s.home, "--batch", "--yes", "--pinentry-mode", "loopback"}, args...)...)
}

// sign writes a detached signature beside a file.
func (s signer) sign(ctx context.Context, path string) ([]byte, error) {
	if err := s.gpg(ctx, "--detach-sign", "--output", path+".sig", path); err != nil {
		return nil, err
	}
	return os.ReadFile(path + ".sig")
}

// export writes the public key.
func (s signer) export(ctx context.Context, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("exporting the key: %w", err)
	}
	return s.gpg(ctx, "--armor", "--output", to, "--export", packager)
}
