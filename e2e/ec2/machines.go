package ec2

import (
	"context"
	"net/netip"
)

// Machines makes the machines behind the double's instances.
type Machines interface {
	// Launch boots a machine and returns when it accepts logins. When ctx ends
	// before that, nothing of the machine may be left.
	Launch(ctx context.Context, launch Launch) (Machine, error)
}

// Launch is what an instance's machine is made from.
type Launch struct {
	InstanceID string
	Disk       Disk
	// User is the account that the image logs its owner in with.
	User string
	// AuthorizedKey is the public half of the instance's key pair, a line for
	// that account's authorized_keys; empty when it has none.
	AuthorizedKey string
	UserData      []byte
}

// Disk is what an image boots from: the tree of a base system, or a captured
// disk. Exactly one is given.
type Disk struct{ Root, Image string }

// Machine is a machine as the double needs it.
type Machine interface {
	Address() netip.Addr
	Hostname() string
	Running() bool
	// PowerOff pushes the power button and returns when the machine is off.
	PowerOff(ctx context.Context) error
	// Capture writes the disk of a machine that is off to a file.
	Capture(ctx context.Context, file string) error
	// Close kills the machine and removes everything of it.
	Close() error
}
