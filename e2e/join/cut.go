package join

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
)

// Cut is a failure of an instance's network in the middle of its first boot.
type Cut struct {
	// At is the entry of the instance's metadata at whose first reading the
	// network goes: the answer is lost, and all that follows.
	At string
	// Over says whether the network comes back now. It is asked until it does.
	Over func(Outage) (bool, error)
}

// Outage is a machine whose network is gone.
type Outage struct {
	// Lost is how many packets it has sent in vain.
	Lost    int
	lab     *machine.Lab
	address netip.Addr
}

// State is systemd's ActiveState of a unit of the machine: "failed", or "active"
// once it is done.
func (o Outage) State(ctx context.Context, unit string) (string, error) {
	return o.lab.Enter(ctx, o.address, "systemctl show --property=ActiveState --value "+unit)
}

// Lasts is an outage until a machine has sent that many packets in vain.
func Lasts(lost int) func(Outage) (bool, error) {
	return func(o Outage) (bool, error) { return o.Lost >= lost, nil }
}

// outage bounds a cut, and what a machine may take to boot through one.
const outage = 8 * time.Minute

// LaunchCut is Launch of an instance whose network fails meanwhile. It returns
// when the network is back and the instance lets us in.
func (a *Account) LaunchCut(ctx context.Context, id, image, role string, userData []byte, cut Cut) (*Instance, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, outage, fmt.Errorf("the network of %s did not fail and come back in time", id))
	defer cancel()
	over := make(chan error, 1)
	instance, err := a.launch(ctx, id, image, role, userData, func(config *machine.Config) {
		config.ReadyWithin = outage
		addressed := config.Addressed
		config.Addressed = func(address netip.Addr) {
			addressed(address)
			var once sync.Once
			a.metadata.watch(address, func(entry string) {
				if entry == cut.At {
					once.Do(func() { a.cut(ctx, address, cut, over) })
				}
			})
		}
	})
	if err != nil {
		return nil, err
	}
	select {
	case err = <-over:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, instance.Close())
	}
	return instance, nil
}

// Interrupt cuts a running instance off and returns when its network is back:
// when over says so.
func (a *Account) Interrupt(ctx context.Context, i *Instance, over func(Outage) (bool, error)) error {
	done := make(chan error, 1)
	a.cut(ctx, i.Address(), Cut{Over: over}, done)
	return <-done
}

// cut cuts the machine at an address off before it returns, and connects it again
// later.
func (a *Account) cut(ctx context.Context, address netip.Addr, cut Cut, over chan<- error) {
	before, err := a.lab.Sent(ctx, address)
	if err = errors.Join(err, a.lab.Cut(ctx, address)); err != nil {
		over <- err
		return
	}
	go func() {
		err := Poll(ctx, func() error {
			sent, err := a.lab.Sent(ctx, address)
			if err != nil {
				return err
			}
			back, err := cut.Over(Outage{sent - before, a.lab, address})
			switch {
			case err != nil:
				return hopeless{err}
			case !back:
				return fmt.Errorf("the network stays away after %d lost packets", sent-before)
			}
			return nil
		})
		over <- errors.Join(err, a.lab.Mend(ctx, address))
	}()
}
