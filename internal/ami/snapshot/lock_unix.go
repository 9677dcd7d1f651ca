//go:build unix

package snapshot

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// lockedFile opens or makes a file and locks the file until
// it is closed or this process ends. A file that another process removed in between is
// made again.
func lockedFile(path string) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, fmt.Errorf("opening the journal: %w", err)
		}
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = fmt.Errorf("the journal %s is %w", path, errInUse)
		}
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		ours, err := file.Stat()
		if err == nil && !ours.Mode().IsRegular() {
			err = fmt.Errorf("the journal %s is not a regular file; move it away", path)
		}
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		if now, err := os.Lstat(path); err == nil && os.SameFile(ours, now) {
			return file, nil
		}
		_ = file.Close() // the file was removed
	}
}

// removeLocked removes a locked file before it ends the lock, so that no other process
// gets the lock in between.
func removeLocked(file *os.File) error { return errors.Join(os.Remove(file.Name()), file.Close()) }
