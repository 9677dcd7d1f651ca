// Package bootstrap implements first boot. It reads the user data of either
// contract, gathers facts about the machine and its instance, and configures and
// starts the kubelet, containerd and the system. Every boot repeats this, and a
// repetition at any other time is safe: the configuration is always rendered
// from its source, never from an earlier result.
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

// AWS holds the AWS API calls of first boot. They run only for facts that neither
// the input nor the instance metadata contain.
type AWS interface {
	// PrivateDNSName returns the instance's private DNS name. It waits until the
	// instance has a name.
	PrivateDNSName(ctx context.Context, region, instanceID string) (string, error)
	// InstanceLimits returns the limits of an instance type that is not in the
	// built-in table.
	InstanceLimits(ctx context.Context, region, instanceType string) (Limits, error)
	// DescribeCluster waits until the cluster is active. attempts limits the
	// retries after a failed request.
	DescribeCluster(ctx context.Context, region, name string, attempts int) (Described, error)
}

// Surroundings holds the services and functions that first boot uses.
type Surroundings struct {
	// IMDS is the instance metadata service.
	IMDS Metadata
	// AWS returns the client of the AWS APIs. environment holds the variables
	// that the NodeConfig sets for every service, such as proxies.
	AWS func(ctx context.Context, environment map[string]string) (AWS, error)
	// Lookup resolves a host name to addresses.
	Lookup func(ctx context.Context, host string) ([]string, error)
	// Command is the path of this program on the node.
	Command string
	// Log writes one line to the journal.
	Log func(line string)
}

// Phase is one half of first boot.
type Phase string

// The phases.
const (
	// Config writes configuration and starts nothing.
	Config Phase = "config"
	// Run prepares disks and starts the services.
	Run Phase = "run"
)

// Phases lists the phases in order.
func Phases() []Phase { return []Phase{Config, Run} }

// Selection limits first boot to some phases and daemons.
type Selection struct {
	// Skip lists the phases to leave out.
	Skip []Phase
	// Daemons lists the services to configure and start. No entry means all
	// services; an empty name means none.
	Daemons []string
}

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
