//go:build linux

package diskaudit

import (
	"fmt"
	"os"
)

// Ready returns an error if this process cannot mount a disk. A caller that gets the
// disk from elsewhere asks first.
func Ready() error {
	if os.Geteuid() != 0 {
		return ErrNeedsRoot
	}
	f, err := os.OpenFile(loopControl, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("making a loop device: %w; a container needs access to loop devices", err)
	}
	return f.Close()
}

// loopControl is the device that makes loop devices.
const loopControl = "/dev/loop-control"
