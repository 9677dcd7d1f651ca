//go:build !agent

package provisioner

import (
	"context"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset/supply"
)

// Supply delivers the downloads and images of a spec to a machine of an architecture:
// from the cache, and images from archives or registries. login returns the credentials
// of a registry when the user's configuration has none; nil means none.
func (l Local) Supply(
	spec Spec, arch string, login func(ctx context.Context, host string) (user, password string, ok bool, err error),
) (Supply, error) {
	images, err := spec.References()
	if err != nil {
		return nil, err
	}
	folder, err := l.Cache()
	if err != nil {
		return nil, err
	}
	return supply.Store{
		Cache: asset.NewCache(folder, asset.NewFetcher(asset.UsualPatience())), Arch: arch,
		Download: func(id string) (asset.Download, error) { return spec.download(id, arch) },
		Images:   images, Archives: l.ImageArchives, Login: login,
	}, nil
}

// download is the download of an asset, for a Supply. An asset that no node gets is an
// error.
func (s Spec) download(id, arch string) (asset.Download, error) {
	a, err := knownAsset("download", id)
	if err != nil {
		return asset.Download{}, err
	}
	return a.For(s.choice(a, arch, ""))
}
