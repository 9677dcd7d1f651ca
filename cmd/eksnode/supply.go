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
	return local.Supply(spec, runtime.GOARCH, awsapi.RegistryLogin(awsapi.Options{}))
}
