package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// Mirror is a finished mirror in the cache.
type Mirror struct {
	Folder string // to serve or to copy; not to be changed
	Hash   string // of everything in it, see Hash; fit for the keys of caches of what is made from it
	Assets []Asset
}

// Versions says what a mirror is to hold, without "v"; an empty one means the
// newest that package tools knows.
type Versions struct {
	Kubelet            string
	CredentialProvider string
	CNIPlugins         string
}

// Build answers a mirror of the node's programs for the architecture arch. It
// builds what has not been built, and lays it out below
// os.UserCacheDir()/eksnode/mirror/VERSIONS/HASH where it is not there yet.
// Progress goes to log, line by line.
func Build(ctx context.Context, versions Versions, arch string, log io.Writer) (Mirror, error) {
	var (
		assets []Asset
		names  []string
	)
	for _, part := range []struct {
		tool, version string
		asset         func(version, arch, file string) Asset
	}{
		{tools.NameKubelet, versions.Kubelet, Kubelet},
		{tools.NameCredentialProvider, versions.CredentialProvider, CredentialProvider},
		{tools.NameCNIPlugins, versions.CNIPlugins, CNIPlugins},
	} {
		_, version, err := tools.Find(part.tool, part.version)
		if err != nil {
			return Mirror{}, err
		}
		file, err := tools.Build(ctx, part.tool, version, arch, log)
		if err != nil {
			return Mirror{}, err
		}
		assets = append(assets, part.asset(version, arch, file))
		names = append(names, part.tool+"-"+version)
	}
	home, err := os.UserCacheDir()
	if err != nil {
		return Mirror{}, fmt.Errorf("finding the cache folder: %w", err)
	}
	root := filepath.Join(home, "eksnode", "mirror", strings.Join(append(names, arch), "_"))
	return Cached(ctx, root, log, assets...)
}

// Cached answers the mirror of the assets below root, under its hash. One that
// is there is checked against the hash first and written again if it has been
// changed.
func Cached(ctx context.Context, root string, log io.Writer, assets ...Asset) (Mirror, error) {
	layout, err := plan(ctx, assets)
	if err != nil {
		return Mirror{}, fmt.Errorf("planning the mirror: %w", err)
	}
	want, err := layout.hash()
	if err != nil {
		return Mirror{}, err
	}
	// Half of the hash keeps the paths readable and tells mirrors apart.
	mirror := Mirror{Folder: filepath.Join(root, want[:32]), Hash: want, Assets: assets}
	there, err := intact(mirror, log)
	if err != nil || there {
		return mirror, err
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return Mirror{}, fmt.Errorf("making the mirror's folder: %w", err)
	}
	temporary, err := os.MkdirTemp(root, ".unfinished-*")
	if err != nil {
		return Mirror{}, fmt.Errorf("making a temporary folder: %w", err)
	}
	defer os.RemoveAll(temporary)
	if err := Lay(ctx, temporary, assets...); err != nil {
		return Mirror{}, err
	}
	if err := os.Chmod(temporary, 0o755); err != nil {
		return Mirror{}, fmt.Errorf("opening the mirror to readers: %w", err)
	}
	// Another process that was faster has written the same.
	if err := os.Rename(temporary, mirror.Folder); err != nil && !errors.Is(err, fs.ErrExist) {
		return Mirror{}, fmt.Errorf("keeping the mirror: %w", err)
	}
	fmt.Fprintf(log, "wrote the mirror %s\n", mirror.Folder)
	return mirror, nil
}

// intact says whether the mirror is there and as it was written; what was changed
// since is removed.
func intact(mirror Mirror, log io.Writer) (bool, error) {
	if _, err := os.Lstat(mirror.Folder); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	got, err := Hash(mirror.Folder)
	if err != nil {
		return false, err
	}
	if got == mirror.Hash {
		return true, nil
	}
	fmt.Fprintf(log, "the mirror %s has been changed; laying it again\n", mirror.Folder)
	if err := os.RemoveAll(mirror.Folder); err != nil {
		return false, fmt.Errorf("removing a changed mirror: %w", err)
	}
	return false, nil
}
