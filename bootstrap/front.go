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
	// Form is the contract of the user data: NodeConfig or bootstrap.sh.
	Form = node.Form
	// Cluster is the cluster that a node joins.
	Cluster = node.Cluster
	// Kubelet holds the kubelet's settings.
	Kubelet = node.Kubelet
	// Containerd holds containerd's settings.
	Containerd = node.Containerd
	// InstanceFacts are what EC2 says about the instance.
	InstanceFacts = instance.Facts
	// MachineFacts are what the machine says about itself.
	MachineFacts = machine.Facts
	// ProgramVersion is the version of the kubelet or containerd of a machine.
	ProgramVersion = machine.Version
	// Described is the cluster that DescribeCluster returns.
	Described = node.Described
	// Limits holds the network limits and the size of an instance type.
	Limits = instance.Limits
	// Metadata is the instance metadata service.
	Metadata = instance.Metadata
)

// IsEC2 reports whether the machine is an EC2 instance, and the evidence.
func IsEC2(h *host.Host) (is bool, why string, err error) { return machine.IsEC2(h) }

// Region returns the instance's region from the metadata service.
func Region(ctx context.Context, service Metadata) (string, error) {
	self, err := instance.ReadIdentity(ctx, service)
	return self.Region, err
}

// Ownership returns the item that reserves the secondary network interfaces for
// the VPC CNI. The metadata service names the primary interface.
func (s Surroundings) Ownership(ctx context.Context) (plan.Item, error) {
	mac, err := instance.ReadLine(ctx, s.IMDS, "meta-data/mac")
	return network.Ownership{MAC: mac}, err
}
