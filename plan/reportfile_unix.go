//go:build unix

package plan

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock locks a file for this process until the file is closed or the process
// ends. It returns false when another process has the lock.
func tryLock(file *os.File) (bool, error) {
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// replace renames temp to the file's path, and from then on holds the lock of temp.
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
