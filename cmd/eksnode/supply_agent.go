//go:build agent

package main

import (
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

// supplyOf is nobody: what pulls images stays off the nodes.
func supplyOf(provisioner.Spec, provisioner.Local) (asset.Supply, error) { return nil, nil }
