// Package node is what one machine is to become, whichever contract said so:
// the description that both NodeConfig and bootstrap.sh's arguments are turned
// into, with everything decided and nothing left to look up.
package node

import (
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/instance"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/machine"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
)

// Form is the contract that a description came from.
type Form string

// The contracts.
const (
	// NodeConfig boots from user data each time; nothing starts without it.
	NodeConfig Form = "NodeConfig"
	// BootstrapScript runs once in an instance's life, so what it starts must
	// start again by itself after a reboot.
	BootstrapScript Form = "bootstrap.sh"
)

// Node is the description. Two that are equal make the same files.
type Node struct {
	Form     Form
	Cluster  Cluster
	Instance instance.Facts
	Machine  machine.Facts

	// Name is the node's name; empty leaves it to the kubelet.
	Name       string
	Kubelet    Kubelet
	Containerd Containerd

	// Environment are environment variables by service; see
	// nodeconfig.DefaultEnvironment.
	Environment map[string]map[string]string
	Network     nodeconfig.Network
	// Disks says what becomes of the instance store's disks; Strategy is empty
	// for nothing.
	Disks nodeconfig.LocalStorage
	// MountBPF asks for a bpf file system at /sys/fs/bpf.
	MountBPF bool
}

// Cluster is the cluster to join.
type Cluster struct {
	Name     string
	Endpoint string
	// CA is PEM.
	CA []byte
	// DNS are the servers that pods ask.
	DNS  []string
	IPv6 bool
	// Outpost says that it is a local cluster on an Outpost, and ID names it
	// there.
	Outpost bool
	ID      string
}

// Kubelet is how the kubelet runs.
type Kubelet struct {
	// Template is the configuration to begin with; nil means the built-in one.
	Template map[string]any
	// Config overrides the generated configuration.
	Config nodeconfig.Document
	// Flags come after the generated ones.
	Flags []string
	// MaxPods is the number of pods for which the instance has addresses, or the
	// result of maxPodsExpression. LimitPods says whether it is the kubelet's
	// limit too.
	MaxPods   int
	LimitPods bool
	// ReservedPods is the number of pods that decides how much memory is
	// reserved.
	ReservedPods int
	// ReservedCgroups says whether reservations are tied to cgroups.
	ReservedCgroups bool
}

// Containerd is how containerd runs.
type Containerd struct {
	// Template is the configuration to begin with, with SANDBOX_IMAGE in it;
	// nil means the built-in one.
	Template []byte
	// Config is merged over it, and BaseRuntimeSpec over the OCI specification.
	Config          nodeconfig.TOML
	BaseRuntimeSpec nodeconfig.Document
	// PauseImage is the image that holds a pod's namespaces open.
	PauseImage string
	// SOCI says that the SOCI snapshotter pulls the images.
	SOCI bool
}
