// Package bootstrap implements first boot. It reads the user data of either
// contract, gathers facts about the machine and its instance, and configures and
// starts the kubelet, containerd and the system. Every boot repeats this, and a
// repetition at any other time is safe: the configuration is always rendered
// from its source, never from an earlier result.
package bootstrap

import "context"

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
