package host

import "sync"

// folder is a directory that a sweep empties. Its descriptor stays open while a
// directory below needs it.
type folder struct {
	parent *folder
	name   []byte // with the closing NUL; nil at the top
	path   string // set at the top, and for directories that were moved up
	depth  int
	fd     int
	keep   bool // do not remove the directory itself

	mu      sync.Mutex
	open    int // counts the directory itself while a worker reads it, and the folders below
	failed  bool
	rescans int
}

func (f *folder) mark() {
	f.mu.Lock()
	f.failed = true
	f.mu.Unlock()
}

// full is the path of the directory or of an entry, for messages.
func (f *folder) full() string {
	if f.path != "" {
		return f.path
	}
	return f.parent.full() + "/" + cString(f.name)
}
