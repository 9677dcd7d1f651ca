package join

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
)

// Account is an AWS account with instances: it knows who is who.
type Account struct {
	lab        *machine.Lab
	key        machine.Key
	metadata   *Metadata
	Identities *Identities
}

// NewAccount makes an account whose instances run in a lab.
func NewAccount(ctx context.Context, lab *machine.Lab) (*Account, error) {
	a := &Account{lab: lab, Identities: &Identities{}}
	var err error
	if a.key, err = machine.NewKey("owner@eksnode.test"); err != nil {
		return nil, err
	}
	a.metadata, err = serveMetadata(ctx, lab, a.Identities)
	return a, err
}

// Instance is a running machine with the identity that AWS gives it.
type Instance struct {
	*machine.Machine
	Identity
}

// Launch starts an instance from an image. Role is the name of its instance
// profile's role: the clusters of an account need not map the same ones.
func (a *Account) Launch(ctx context.Context, id, image, role string, userData []byte) (*Instance, error) {
	return a.launch(ctx, id, image, role, userData, func(*machine.Config) {})
}

func (a *Account) launch(ctx context.Context, id, image, role string, userData []byte, adapt func(*machine.Config)) (*Instance, error) {
	instance := &Instance{}
	var failed error
	config := machine.Config{
		Kind: machine.Node, Image: image, InstanceID: id, UserData: userData, AuthorizedKeys: []string{a.key.Authorized}, Signer: a.key.Signer,
		Addressed: func(address netip.Addr) {
			instance.Identity, failed = a.metadata.launch(id, role, address, userData)
		},
	}
	adapt(&config)
	var err error
	if instance.Machine, err = a.lab.Start(ctx, config); err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, errors.Join(failed, instance.Close())
	}
	return instance, nil
}

// Try runs a shell script on the instance as root.
func (i *Instance) Try(ctx context.Context, script string) (machine.Result, error) {
	return i.Run(ctx, "sudo sh -seu", strings.NewReader(script))
}

// Do runs a shell script on the instance as root, which must succeed, and
// returns what it printed.
func (i *Instance) Do(ctx context.Context, script string) (string, error) {
	result, err := i.Try(ctx, script)
	if err == nil && result.Code != 0 {
		err = fmt.Errorf("the script exited with %d", result.Code)
	}
	if err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(script), "\n")
		return "", fmt.Errorf("running %q on %s: %w: %s%s", first, i.InstanceID(), err, result.Stdout, result.Stderr)
	}
	return strings.TrimSpace(result.Stdout), nil
}

// Joined waits until the instance is a ready node of a cluster.
func (c *Cluster) Joined(ctx context.Context, name string, within time.Duration) (Node, error) {
	return c.Rejoined(ctx, name, time.Time{}, within)
}

// Rejoined waits until a node says again, after a moment, that it is ready.
func (c *Cluster) Rejoined(ctx context.Context, name string, since time.Time, within time.Duration) (Node, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("%s is no ready node of %s within %s", name, c.Name, within))
	defer cancel()
	var node Node
	err := Poll(ctx, func() (err error) {
		if node, err = c.Node(ctx, name); err != nil {
			return err
		}
		if why := node.ReadySince(since); why != "" {
			return errors.New(why)
		}
		return nil
	})
	return node, err
}

// Runs waits until a pod of the namespace default runs.
func (c *Cluster) Runs(ctx context.Context, name string, within time.Duration) (Pod, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("the pod %s does not run within %s", name, within))
	defer cancel()
	var pod Pod
	err := Poll(ctx, func() (err error) {
		if pod, err = c.Pod(ctx, name); err != nil {
			return err
		}
		if why := pod.Running(); why != "" {
			return errors.New(why)
		}
		return nil
	})
	return pod, err
}
