//go:build !linux

package diskbuild

import (
	"context"

	"github.com/eksnode/packer-plugin-eksnode/internal/diskaudit"
)

// Run returns diskaudit.ErrNeedsLinux.
func (Build) Run(context.Context, any, func() bool) ([]string, error) {
	return nil, diskaudit.ErrNeedsLinux
}

// Validate returns diskaudit.ErrNeedsLinux.
func (Build) Validate() error { return diskaudit.ErrNeedsLinux }
