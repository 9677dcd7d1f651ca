//go:build !agent

package main

import (
	"runtime"

	"github.com/eksnode/packer-plugin-eksnode/artifact"
	"github.com/eksnode/packer-plugin-eksnode/artifact/supply"
	"github.com/eksnode/packer-plugin-eksnode/cluster"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

// supplyOf is who brings the images to a machine that is provisioned without
// Packer: this program itself.
func supplyOf(spec provisioner.Spec, archives []string) (artifact.Supply, error) {
	images, err := spec.References()
	if err != nil || len(images) == 0 {
		return nil, err
	}
	folder, err := artifact.DefaultCache()
	if err != nil {
		return nil, err
	}
	return supply.Shelf{
		Cache: artifact.NewCache(folder, artifact.NewFetcher(artifact.UsualPatience())), Arch: runtime.GOARCH,
		Images: images, Archives: archives, Login: cluster.RegistryLogin(cluster.Options{}),
		Download: func(asset string) (artifact.Download, error) { return spec.Download(asset, runtime.GOARCH) },
	}, nil
}
