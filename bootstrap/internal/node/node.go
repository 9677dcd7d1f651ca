// Package node describes the node to configure. Both contracts, NodeConfig and
// bootstrap.sh, result in the same description, which is complete: rendering needs
// no further facts.
package node

import (
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/instance"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/machine"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
)

// Form is the contract of the user data.
type Form string

// The contracts.
const (
	// NodeConfig is read at every boot; no service starts before.
	NodeConfig Form = "NodeConfig"
	// BootstrapScript runs once in an instance's life, so systemd must start the
	// services after a reboot.
	BootstrapScript Form = "bootstrap.sh"
)

// Node describes the node to configure. Equal nodes have the same files.
type Node struct {
	Form     Form
	Cluster  Cluster
	Instance instance.Facts
	Machine  machine.Facts

	// Name is the node's name; if empty, the kubelet chooses the name.
	Name       string
	Kubelet    Kubelet
	Containerd Containerd

	// Environment maps each service to its environment variables; see
	// nodeconfig.DefaultEnvironment.
	Environment map[string]map[string]string
	Network     nodeconfig.Network
	// Disks configures the instance store. An empty Strategy leaves the disks
	// unused.
	Disks nodeconfig.LocalStorage
	// MountBPF mounts a bpf file system at /sys/fs/bpf.
	MountBPF bool
}

// Cluster is the cluster to join.
type Cluster struct {
	Name     string
	Endpoint string
	// CA is PEM.
	CA []byte
	// DNS lists the DNS servers of pods.
	DNS  []string
	IPv6 bool
	// Outpost says that the cluster is a local cluster on an Outpost. ID then
	// identifies the cluster.
	Outpost bool
	ID      string
}

// Kubelet holds the kubelet's settings.
type Kubelet struct {
	// Template is the base configuration; nil means the built-in one.
	Template map[string]any
	// Config overrides the generated configuration.
	Config nodeconfig.Document
	// Flags come after the generated ones.
	Flags []string
	// MaxPods is the number of pods for which the instance has addresses, or the
	// result of maxPodsExpression. LimitPods says whether the kubelet uses MaxPods
	// as its limit.
	MaxPods   int
	LimitPods bool
	// ReservedPods is the number of pods from which the reserved memory is computed.
	ReservedPods int
	// ReservedCgroups says whether reservations are tied to cgroups.
	ReservedCgroups bool
}

// Containerd holds containerd's settings.
type Containerd struct {
	// Template is the base configuration, with the placeholder SANDBOX_IMAGE; nil
	// means the built-in one.
	Template []byte
	// Config overrides Template, and BaseRuntimeSpec the built-in OCI specification.
	Config          nodeconfig.TOML
	BaseRuntimeSpec nodeconfig.Document
	// PauseImage is the image that holds a pod's namespaces open.
	PauseImage string
	// SOCI says that the SOCI snapshotter pulls the images.
	SOCI bool
}
