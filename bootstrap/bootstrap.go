// Package bootstrap is a node's first boot: it reads what a cluster asks of the
// machine, in either contract, learns what the machine and its instance are,
// and plans and applies the configuration of the kubelet, of containerd and of
// the system. It is done again at every boot, and by anybody at any time: the
// configuration is always made from its source, never from the last result.
package bootstrap

import (
	"context"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/instance"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
)

// AWS is what a node asks of AWS's APIs, and only when the input and the
// instance metadata leave it open.
type AWS interface {
	instance.EC2
	// DescribeCluster waits until the cluster is active. attempts bounds the
	// further requests after a failure.
	DescribeCluster(ctx context.Context, region, name string, attempts int) (node.Described, error)
}

// Surroundings are what a first boot talks to.
type Surroundings struct {
	// IMDS is the instance metadata service.
	IMDS instance.Metadata
	// AWS makes the client of the APIs. environment are the variables that the
	// NodeConfig sets for every service, such as proxies.
	AWS func(ctx context.Context, environment map[string]string) (AWS, error)
	// Lookup resolves a host's name.
	Lookup func(ctx context.Context, host string) ([]string, error)
	// Command is the path of this program on the node.
	Command string
	// Log takes one line for whoever reads the journal.
	Log func(line string)
}

// Phase is one half of a first boot.
type Phase string

// The phases.
const (
	// Config writes configuration and starts nothing.
	Config Phase = "config"
	// Run prepares disks and starts the services.
	Run Phase = "run"
)

// Phases lists them in order.
func Phases() []Phase { return []Phase{Config, Run} }

// Selection narrows what is done.
type Selection struct {
	// Skip are phases to leave out.
	Skip []Phase
	// Daemons are the only services to configure and start; no entry means all,
	// and an empty name none.
	Daemons []string
}
