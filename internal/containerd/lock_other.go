//go:build !linux

package containerd

import (
	"errors"
	"os"
)

// lock is needed where there are hosts: on Linux.
func lock(*os.File) error { return errors.ErrUnsupported }
