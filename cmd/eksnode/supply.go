//go:build !agent

package main

import (
	"runtime"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

// supplyOf returns the source of container images without Packer: this program pulls
// the images.
func supplyOf(spec provisioner.Spec, local provisioner.Local) (provisioner.Supply, error) {
	if images, err := spec.References(); err != nil || len(images) == 0 {
		return nil, err
	}
	return supplyAll(spec, local)
}

// supplyAll returns the source of images and downloads: this program fetches both, and
// keeps them in the cache.
func supplyAll(spec provisioner.Spec, local provisioner.Local) (provisioner.Supply, error) {
	return local.Supply(spec, runtime.GOARCH, awsapi.RegistryLogin(awsapi.Options{}))
}
