// Package host gives access to one machine: its files, mounts, units and commands.
//
// There are three kinds of host. Live is the machine that this process runs on, or,
// where systemd did not start it, an offline root: its programs run, but no service
// does (Host.Offline). Mounted is an image root: an image that is unpacked or mounted
// in a folder of this machine. All take the absolute paths that the machine itself uses.
// On an image root every link is resolved inside the root, and no command runs.
package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// ErrMountedRoot is returned for every operation on an image root that would run a
// program of the image or change the kernel's state.
var ErrMountedRoot = errors.New("not possible on an image root")

// ErrOwnRoot is returned by Mounted for the root of the machine that this process
// runs on.
var ErrOwnRoot = errors.New("this folder is the running machine's own root")

// Host is one machine. Live and Mounted make it. It is safe for concurrent use.
type Host struct {
	// Files is the machine's file system. Its paths are the machine's own.
	Files *Files

	root string
	now  func() time.Time
	env  []string // additional environment of commands
}

// With returns the machine with more environment variables for its commands, as
// "NAME=value".
func (h *Host) With(env ...string) *Host {
	with := *h
	with.env = append(h.env[:len(h.env):len(h.env)], env...)
	return &with
}

// Live returns the machine that this process runs on.
func Live() (*Host, error) {
	return open("/")
}

// Mounted returns the machine whose file system lies in the directory root. A root
// that is "/" under another name (a bind mount or a link) is ErrOwnRoot: the caller
// would change the machine that it runs on.
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
		return nil, fmt.Errorf("opening the root: %w; mount the image first and name the mount point", err)
	}
	if !st.IsDir() {
		return nil, fmt.Errorf("opening the root %s: not a directory; mount the image first and name the mount point",
			abs)
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

// Close closes the descriptors of the machine's files.
func (h *Host) Close() error { return h.Files.Close() }

// IsLive says whether commands may run and kernel state may be changed.
func (h *Host) IsLive() bool { return h.root == "/" }

// Root is the directory of the machine's file system on the machine that this
// process runs on; "/" for the live machine. It is for messages. Paths for Files
// must not contain it.
func (h *Host) Root() string { return h.root }

// Now is the time for reports, in UTC.
func (h *Host) Now() time.Time { return h.now().UTC() }

// WithClock returns the same host with another clock, for output that must not
// change from run to run.
func (h *Host) WithClock(now func() time.Time) *Host {
	c := *h
	c.now = now
	return &c
}
