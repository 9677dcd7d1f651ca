package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"
)

// folder holds the state of one lab's machines. A lock on a file in it
// distinguishes folders in use from those of a killed harness.
type folder struct {
	path string
	lock *os.File
}

// openFolder makes a new folder below parent, after removing the folders of
// dead processes.
func openFolder(parent string) (*folder, error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, fmt.Errorf("making the run folder: %w", err)
	}
	if err := sweep(parent); err != nil {
		return nil, err
	}
	path, err := os.MkdirTemp(parent, "lab-")
	if err != nil {
		return nil, fmt.Errorf("making the run folder: %w", err)
	}
	lock, err := lockFolder(path)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return &folder{path: path, lock: lock}, nil
}

// name is the lab's unique name on the host.
func (f *folder) name() string { return filepath.Base(f.path) }

// remove deletes the folder with all machines in it.
func (f *folder) remove() error {
	return errors.Join(removeTree(f.path), f.lock.Close())
}

func lockFolder(path string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the run folder: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("locking the run folder: %w", err), lock.Close())
	}
	return lock, nil
}

// sweep removes the leftovers of dead processes' labs. Their machines and
// mounts ended with the processes: only files and control groups remain.
func sweep(parent string) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return fmt.Errorf("sweeping the run folder: %w", err)
	}
	for _, entry := range entries {
		path := filepath.Join(parent, entry.Name())
		if !entry.IsDir() || !strings.HasPrefix(entry.Name(), "lab-") {
			continue
		}
		lock, err := lockFolder(path)
		if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, fs.ErrNotExist) {
			continue // in use, or just removed by its owner
		}
		if err != nil {
			return err
		}
		err = errors.Join(RemoveControlGroups(entry.Name()+"-*"), removeTree(path), lock.Close())
		if err != nil {
			return fmt.Errorf("sweeping %s: %w", path, err)
		}
	}
	return nil
}

// removeTree deletes a folder unless something is mounted in it: the deletion
// would also delete the mounted file system's contents.
func removeTree(path string) error {
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(path))
	if err != nil {
		return fmt.Errorf("removing %s: %w", path, err)
	}
	for _, mount := range mounts {
		return fmt.Errorf("removing %s: %s is mounted: unmount it first", path, mount.Mountpoint)
	}
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("removing %s: %w", path, err)
	}
	return nil
}
