package host

import "sync"

// folder is a directory that is being emptied. Its descriptor stays open as
// long as a directory below it needs it.
type folder struct {
	parent *folder
	name   []byte // with the closing NUL; nil at the top
	path   string // at the top, and of what was moved up
	depth  int
	fd     int
	keep   bool // do not remove the directory itself

	mu      sync.Mutex
	open    int // itself while it is read, and the folders below it
	failed  bool
	rescans int
}

func (f *folder) mark() {
	f.mu.Lock()
	f.failed = true
	f.mu.Unlock()
}

// full is the path of a directory or entry, for messages.
func (f *folder) full() string {
	if f.path != "" {
		return f.path
	}
	return f.parent.full() + "/" + cString(f.name)
}
