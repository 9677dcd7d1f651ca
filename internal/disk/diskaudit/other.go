//go:build !linux

package diskaudit

import (
	"context"

	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// Run returns ErrNeedsLinux.
func (a Audit) Run(context.Context) (plan.Report, error) { return plan.Report{}, ErrNeedsLinux }

// List returns ErrNeedsLinux.
func (a Audit) List(context.Context) (*Listing, error) { return nil, ErrNeedsLinux }

// Ready returns ErrNeedsLinux.
func Ready() error { return ErrNeedsLinux }

// Child reports that this process is no child.
func Child(context.Context, Worker) (code int, child bool) {
	return 0, false
}
