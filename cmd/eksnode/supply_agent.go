//go:build agent

package main

import (
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

// supplyOf returns nil: the agent has no code to pull images.
func supplyOf(provisioner.Spec, provisioner.Local) (provisioner.Supply, error) { return nil, nil }

func supplyAll(provisioner.Spec, provisioner.Local) (provisioner.Supply, error) { return nil, nil }
