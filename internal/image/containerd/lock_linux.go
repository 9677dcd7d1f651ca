package containerd

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long to wait for a process that has the metadata open.
const patience = 2 * time.Second

// lock takes bbolt's lock for readers. A running containerd has the lock for
// writers.
func lock(file *os.File) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		err := unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) || time.Now().After(deadline) {
			return fmt.Errorf("locking the file: %w; a containerd that systemd did not start may be running", err)
		}
	}
}
