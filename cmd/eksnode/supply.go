//go:build !agent

package main

import (
	"runtime"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset/supply"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

// supplyOf returns the source of container images without Packer: this program pulls
// the images.
func supplyOf(spec provisioner.Spec, local provisioner.Local) (asset.Supply, error) {
	images, err := spec.References()
	if err != nil || len(images) == 0 {
		return nil, err
	}
	folder, err := local.Cache()
	if err != nil {
		return nil, err
	}
	return supply.Store{
		Cache: asset.NewCache(folder, asset.NewFetcher(asset.UsualPatience())), Arch: runtime.GOARCH,
		Images: images, Archives: local.ImageArchives, Login: awsapi.RegistryLogin(awsapi.Options{}),
		Download: func(id string) (asset.Download, error) { return spec.Download(id, runtime.GOARCH) },
	}, nil
}
