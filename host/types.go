package host

import (
	"fmt"
	"io/fs"
	"os"
)

// Attributes are what a file carries beside its content.
type Attributes struct {
	Mode     fs.FileMode // permission, setuid, setgid and sticky bits
	UID, GID int
}

// Removal counts what a removal took away.
type Removal struct {
	// Entries is the number of files, links and directories.
	Entries int64 `json:"entries"`
	// Bytes is the disk space they took, as the file system counts it.
	Bytes int64 `json:"bytes"`
}

// Add sums up removals.
func (r *Removal) Add(o Removal) { r.Entries += o.Entries; r.Bytes += o.Bytes }

// Mount is one mount on the machine.
type Mount struct {
	// Path is the mount point as the machine names it.
	Path string
	// Type is the file system's type, such as "tmpfs".
	Type string
	// Source is what is mounted, as mountinfo(5) names it.
	Source string
}

// ForeignMount is a mount that does not belong to the machine. Nothing that
// scrubs or searches enters it.
type ForeignMount struct {
	Mount
	// Why says what makes the mount foreign, such as "a bind mount of /data".
	Why string
	// Kernel says that nothing of the mount can be in an image, as of /proc
	// and /run.
	Kernel bool
	own    bool // a folder that is bound onto itself
}

// MountedError says that something is mounted where files were to be removed.
// Nothing below the mount was touched.
type MountedError struct{ Path string }

func (e *MountedError) Error() string {
	return fmt.Sprintf("%s: something is mounted there; unmount it first (what lies below a mount belongs to another file system)", e.Path)
}

// Entry is a file, folder or link that Walk visits.
type Entry struct {
	os.FileInfo // nil beside an error
	// Path is the entry's path as the machine names it.
	Path string
	dir  int
}
