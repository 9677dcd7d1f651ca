package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// Mirror is a finished mirror in the cache.
type Mirror struct {
	Folder string // read-only folder to serve or copy
	Assets []Asset
}

// part makes one asset from a tool.
type part struct {
	tool, version string
	asset         func(version, arch, file string) Asset
}

// parts are the parts of a mirror. An empty version means the default.
func parts(kubelet string) []part {
	return []part{
		{tools.NameKubelet, kubelet, Kubelet},
		{tools.NameCredentialProvider, "", CredentialProvider},
		{tools.NameCNIPlugins, "", CNIPlugins},
		{tools.NameContainerd, "", Containerd},
		{tools.NameRunc, "", Runc},
	}
}

// Build returns a mirror of the node's programs for the architecture arch. An empty
// version of the kubelet means the default. Build builds missing programs, and writes the mirror below
// os.UserCacheDir()/eksnode/mirror unless it is already there. Progress goes to
// log, line by line.
func Build(ctx context.Context, kubelet, arch string, log io.Writer) (Mirror, error) {
	var assets []Asset
	sum := sha256.New()
	for _, part := range parts(kubelet) {
		_, version, err := tools.Find(part.tool, part.version)
		if err != nil {
			return Mirror{}, err
		}
		file, err := tools.Build(ctx, part.tool, version, arch, log)
		if err != nil {
			return Mirror{}, err
		}
		assets = append(assets, part.asset(version, arch, file))
		fmt.Fprintln(sum, file, version)
	}
	home, err := os.UserCacheDir()
	if err != nil {
		return Mirror{}, fmt.Errorf("finding the cache folder: %w", err)
	}
	root := filepath.Join(home, "eksnode", "mirror")
	// The key contains the programs' folders in the cache, which identify their
	// builds.
	mirror := Mirror{filepath.Join(root, hex.EncodeToString(sum.Sum(nil))[:32]), assets}
	if _, err := os.Stat(mirror.Folder); err == nil {
		return mirror, nil
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return Mirror{}, fmt.Errorf("making the mirror's folder: %w", err)
	}
	temporary, err := os.MkdirTemp(root, ".unfinished-*")
	if err != nil {
		return Mirror{}, fmt.Errorf("making a temporary folder: %w", err)
	}
	defer os.RemoveAll(temporary)
	if err := errors.Join(Lay(ctx, temporary, assets...), os.Chmod(temporary, 0o755)); err != nil {
		return Mirror{}, err
	}
	// Another process has written the same mirror in the meantime.
	if err := os.Rename(temporary, mirror.Folder); err != nil && !errors.Is(err, fs.ErrExist) {
		return Mirror{}, fmt.Errorf("keeping the mirror: %w", err)
	}
	fmt.Fprintf(log, "wrote the mirror %s\n", mirror.Folder)
	return mirror, nil
}
