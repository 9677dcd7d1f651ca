package distros

import (
	"context"
	"fmt"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// transactional is a package manager without unfinished packages. rpm and
// pacman write a package into their database after its files: an interrupted
// package is not installed, and Install installs it. Locks name their process
// or belong to the kernel, and the tools take over locks of dead processes;
// pacman's lock is a Leftover.
type transactional struct{}

func (transactional) Unfinished(*host.Host) ([]string, error)  { return nil, nil }
func (transactional) Finish(context.Context, *host.Host) error { return nil }

func finishing(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("finishing packages of an interrupted run: %w", err)
}
