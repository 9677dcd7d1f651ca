//go:build unix

package plan

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock locks a file for this process, which ends with the process at the
// latest; false says that another process has the lock.
func tryLock(file *os.File) (bool, error) {
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// replace puts temp in the file's place, and holds temp's lock from then on.
func (f *ReportFile) replace(temp *os.File) error {
	if _, err := tryLock(temp); err != nil {
		return err
	}
	if err := os.Rename(temp.Name(), f.path); err != nil {
		return err
	}
	former := f.lock
	f.lock = temp
	return former.Close()
}
