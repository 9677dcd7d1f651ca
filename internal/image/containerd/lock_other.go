//go:build !linux

package containerd

import (
	"errors"
	"os"
)

// lock is supported on Linux only.
func lock(*os.File) error { return errors.ErrUnsupported }
