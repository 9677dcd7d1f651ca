//go:build !linux

package diskbuild

import (
	"context"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/build/sandbox"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskaudit"
)

// Run returns diskaudit.ErrNeedsLinux.
func (Build) Run(context.Context, any, func() bool) ([]string, error) {
	return nil, diskaudit.ErrNeedsLinux
}

// Ready returns diskaudit.ErrNeedsLinux.
func (Build) Ready() error { return diskaudit.ErrNeedsLinux }

// Opened is a build whose disk is mounted; see the Linux build.
type Opened struct{ sandbox.Commands }

// Open returns diskaudit.ErrNeedsLinux.
func (Build) Open(context.Context) (*Opened, error) { return nil, diskaudit.ErrNeedsLinux }

// Finish returns diskaudit.ErrNeedsLinux.
func (*Opened) Finish(bool) ([]string, error) { return nil, diskaudit.ErrNeedsLinux }

// CanRun returns diskaudit.ErrNeedsLinux.
func CanRun(*host.Host) error { return diskaudit.ErrNeedsLinux }

// Child does the work of Run; see the Linux build.
func Child(context.Context, diskaudit.Worker) (code int, child bool) { return 0, false }

// OpenChild does the work of Open; see the Linux build.
func OpenChild(context.Context) (code int, child bool) { return 0, false }
