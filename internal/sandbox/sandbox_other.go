//go:build !linux

package sandbox

import (
	"context"
	"errors"
	"io"
)

// Run runs this program again; see the Linux build.
func Run(context.Context, string, []byte, io.Writer) ([]byte, error) {
	return nil, errors.New("sandboxes need Linux")
}

// Inside says whether Run started this process; see the Linux build.
func Inside() bool { return false }

// Enter moves this process into the root; see the Linux build.
func Enter() error { return errors.New("sandboxes need Linux") }
