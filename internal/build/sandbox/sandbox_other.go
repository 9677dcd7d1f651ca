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
func Enter(bool) error { return errors.New("sandboxes need Linux") }

// Commands runs shell commands in a sandbox; see the Linux build.
type Commands struct{}

// Run runs a command; see the Linux build.
func (Commands) Run(context.Context, string, io.Reader, io.Writer, io.Writer) (int, error) {
	return 0, errors.New("sandboxes need Linux")
}
