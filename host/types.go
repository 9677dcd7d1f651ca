package host

import (
	"io/fs"
	"os"
)

// Attributes are a file's mode and owner.
type Attributes struct {
	Mode     fs.FileMode // permission, setuid, setgid and sticky bits
	UID, GID int
}

// Removal counts removed entries.
type Removal struct {
	// Entries is the number of files, links and directories.
	Entries int64 `json:"entries"`
	// Bytes is the length of the regular files; of one with holes, what it takes on the disk.
	Bytes int64 `json:"bytes"`
}

// Add adds the counts of another removal.
func (r *Removal) Add(o Removal) { r.Entries += o.Entries; r.Bytes += o.Bytes }

// Mount is one mount on the machine.
type Mount struct {
	// Path is the mount point as the machine names it.
	Path string
	// Type is the file system's type, such as "tmpfs".
	Type string
	// Source is the mounted device or address, as mountinfo(5) names it.
	Source string
}

// ForeignMount is a mount that does not belong to the machine. No scrub and no
// search enters it.
type ForeignMount struct {
	Mount
	// Why names the reason why the mount is foreign, such as "a bind mount of
	// /data".
	Why string
	// Kernel says that an image never contains the mount's files, as for /proc and
	// /run.
	Kernel bool
	own    bool // a folder that is bound onto itself
}

// MountedError says that a file system is mounted in a folder that was to be
// removed. Nothing below the mount was touched.
type MountedError struct{ Path string }

func (e *MountedError) Error() string {
	return e.Path + ": something is mounted there; unmount it first (files below a mount belong to another file system)"
}

// Entry is a file, folder or link that Walk visits.
type Entry struct {
	os.FileInfo // nil together with an error
	// Path is the entry's path as the machine names it.
	Path string
	dir  int
}

// Space is the free space of the file system that holds a path.
type Space struct {
	// FreeBytes is how much root may still write, and AvailableBytes how much other users.
	FreeBytes, AvailableBytes uint64
	// BlockBytes is the smallest piece that the file system gives to a file.
	// DiscardBytes is the smallest piece that the disk discards. 0 means unknown.
	BlockBytes, DiscardBytes uint64
	// ReadOnly says that the file system is mounted read-only, and NoInodes that it has none
	// left for more files.
	ReadOnly, NoInodes bool
}
