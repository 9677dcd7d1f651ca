package shape

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
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
	pool, dist := filepath.Join(repository, "pool"), filepath.Join(repository, "dists", m.suite)
	if err := os.MkdirAll(pool, 0o755); err != nil {
		return fmt.Errorf("making the repository: %w", err)
	}
	var index strings.Builder
	for _, p := range offered {
		entry, err := m.pack(ctx, p, pool)
		if err != nil {
			return err
		}
		index.WriteString(entry)
	}
	release := fmt.Sprintf("Origin: shape\nSuite: %s\nCodename: %[1]s\nDate: Sat, 25 Oct 2025 00:00:00 UTC\nArchitectures: amd64\nComponents: main\nSHA256:\n %x %d main/binary-amd64/Packages\n",
		m.suite, sha256.Sum256([]byte(index.String())), index.Len())
	err := base.Write(dist, base.File{Path: "main/binary-amd64/Packages", Content: index.String(), Mode: 0o644},
		base.File{Path: "Release", Content: release, Mode: 0o644})
	if err != nil {
		return err
	}
	signer, err := newSigner(ctx, folder)
	if err != nil {
		return err
	}
	signed := filepath.Join(dist, "InRelease")
	if err := signer.gpg(ctx, "--clear-sign", "--output", signed, filepath.Join(dist, "Release")); err != nil {
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
	err = base.Write(p.control, base.File{Path: "control", Content: string(control), Mode: 0o644},
		base.File{Path: "conffiles", Content: strings.Join(append(backups(p), ""), "\n"), Mode: 0o644})
	if err != nil {
		return "", fmt.Errorf("packing %s: %w", p.name, err)
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
