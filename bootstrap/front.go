package bootstrap

import (
	"context"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/instance"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/machine"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/network"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

type (
	// Node describes the node that a machine becomes.
	Node = node.Node
	// Described is what DescribeCluster returns.
	Described = node.Described
	// Limits are those of an instance type.
	Limits = instance.Limits
	// Metadata is the instance metadata service.
	Metadata = instance.Metadata
)

// IsEC2 says whether the machine is an EC2 instance, and by what that is known.
func IsEC2(h *host.Host) (is bool, why string, err error) { return machine.IsEC2(h) }

// Region reads the instance's region.
func Region(ctx context.Context, service Metadata) (string, error) {
	self, err := instance.ReadIdentity(ctx, service)
	return self.Region, err
}

// Ownership gives the secondary network interfaces to the VPC CNI. It reads
// which interface is the primary one.
func (s Surroundings) Ownership(ctx context.Context) (plan.Item, error) {
	mac, err := instance.ReadLine(ctx, s.IMDS, "meta-data/mac")
	return network.Ownership{MAC: mac}, err
}
