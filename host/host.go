// Package host is the machine as every other room sees it: its files, its
// mounts, its units and its commands.
//
// There are two hosts. Live is the machine this process runs on. Mounted is an
// image that lies unpacked or mounted somewhere below the machine. Both answer
// to the absolute paths the machine itself would use; on a mounted root every
// link is resolved inside that root and no command runs.
package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// ErrMountedRoot is returned by everything that would have to run something
// from, or change the kernel state of, an image that is only mounted.
var ErrMountedRoot = errors.New("not possible on a mounted root")

// ErrOwnRoot is returned by Mounted for the root of the machine this process
// runs on.
var ErrOwnRoot = errors.New("this folder is the running machine's own root")

// Host is one machine. It is made by Live or Mounted and is safe for
// concurrent use.
type Host struct {
	// Files is the machine's file system; its paths are the machine's own.
	Files *Files

	root string
	now  func() time.Time
}

// Live returns the machine this process runs on.
func Live() (*Host, error) {
	return open("/")
}

// Mounted returns the machine whose file system lies at root, a directory. It
// fails when root is not a directory. A root that is "/" in disguise (a bind
// mount or a link to it) is refused, because the caller asked for an image and
// would change the machine it works on.
func Mounted(root string) (*Host, error) {
	if root == "" {
		return nil, errors.New("opening the root: the path is empty")
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("finding the root %q: %w", root, err)
	}
	st, err := os.Stat(abs)
	if err != nil {
		return nil, fmt.Errorf("opening the root: %w", err)
	}
	if !st.IsDir() {
		return nil, fmt.Errorf("opening the root %s: not a directory; mount the image first and name the mount point", abs)
	}
	if own, err := os.Stat("/"); err == nil && os.SameFile(own, st) {
		return nil, fmt.Errorf("opening the root %s: %w", abs, ErrOwnRoot)
	}
	resolved, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return nil, fmt.Errorf("finding the root %q: %w", root, err)
	}
	return open(resolved)
}

func open(root string) (*Host, error) {
	files, err := openFiles(root)
	if err != nil {
		return nil, fmt.Errorf("opening the root %s: %w", root, err)
	}
	return &Host{Files: files, root: root, now: time.Now}, nil
}

// Close releases the root directory's descriptor.
func (h *Host) Close() error { return h.Files.Close() }

// IsLive says whether commands may run and kernel state may be changed.
func (h *Host) IsLive() bool { return h.root == "/" }

// Root is where the machine's file system lies on the machine this process
// runs on: "/" for the live machine. It is for messages; paths given to Files
// must not contain it.
func (h *Host) Root() string { return h.root }

// Now is the time that reports carry.
func (h *Host) Now() time.Time { return h.now().UTC() }

// WithClock returns the same host with another clock, for output that must not
// change from run to run.
func (h *Host) WithClock(now func() time.Time) *Host {
	c := *h
	c.now = now
	return &c
}
