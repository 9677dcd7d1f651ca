//go:build agent

package main

import (
	"github.com/eksnode/packer-plugin-eksnode/artifact"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

// supplyOf is nobody: what pulls images stays off the nodes.
func supplyOf(provisioner.Spec, []string) (artifact.Supply, error) { return nil, nil }
