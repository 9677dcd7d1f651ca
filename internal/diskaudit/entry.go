package diskaudit

import (
	"crypto/sha256"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/eksnode/packer-plugin-eksnode/scrub/packages"
)

// The kinds of files.
const (
	File        = "file"
	Directory   = "directory"
	Link        = "link"
	FIFO        = "FIFO"
	Socket      = "socket"
	CharDevice  = "character device"
	BlockDevice = "block device"
)

// Entry is a file of a disk.
type Entry struct {
	Path string
	// Kind is one of the constants above.
	Kind string
	// Mode has the permission, setuid, setgid and sticky bits, as chmod(1) counts them.
	Mode     uint32
	UID, GID uint32
	// Size is the number of bytes of a regular file.
	Size int64
	// Target is the target of a link.
	Target string
	// Device has the numbers of a device, such as 8:1.
	Device string
	// Links is the number of hard links of everything but directories.
	Links uint64
	// Sum identifies the content of a regular file. Of a file of up to PlainMost bytes,
	// it is the SHA-256. Of a larger one, it is the SHA-256 of all parts that are not
	// zeros, so that large sparse files are not read.
	Sum [sha256.Size]byte
	// Attributes are the extended attributes.
	Attributes map[string]string
	// Owner is the package that owns the file, as a key of Listing.Packages.
	Owner string
}

// PlainMost is the size of the largest file whose Sum is the SHA-256 of its content, in
// bytes.
const PlainMost = 1 << 30

// Head describes a list of files.
type Head struct {
	// Partition is the number of the root partition, and Kind its file system.
	Partition int
	Kind      string
	// Notes name the partitions that are not in the list.
	Notes []string
	// Packages are the installed packages.
	Packages packages.Installed
}

// Listing has the files of a disk, folders before their content, names in the order of
// their bytes. Other partitions are where the image mounts them.
type Listing struct {
	Head

	path string
	file *os.File
	in   *gob.Decoder
}

// record is what the child writes. The first one has the head, and the last one is
// empty.
type record struct {
	Head  *Head
	Entry *Entry
}

// Next returns the next file, or io.EOF after the last one.
func (l *Listing) Next() (Entry, error) {
	var r record
	if err := l.in.Decode(&r); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return Entry{}, fmt.Errorf("listing the files of the disk image %s: %w", l.path, err)
	}
	if r.Entry == nil {
		return Entry{}, io.EOF
	}
	return *r.Entry, nil
}

// Close removes the list.
func (l *Listing) Close() error { return l.file.Close() }
