//go:build agent

package main

import (
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

// supplyOf returns nil: the agent has no code to pull images.
func supplyOf(provisioner.Spec, provisioner.Local) (asset.Supply, error) { return nil, nil }
