// Package diskaudit audits the file systems of a disk image. It mounts them read-only,
// in a process with a mount namespace of its own: no other process sees the mounts, and
// they end with the process, even after a crash. Linux reads the file systems, because
// libraries that do so can read wrong content without an error.
package diskaudit

import (
	"context"
	"crypto/sha256"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
	"github.com/eksnode/packer-plugin-eksnode/scrub/packages"
)

// Audit says what to audit.
type Audit struct {
	Image *disk.Image
	// Root is the number of the root partition; 0 finds it.
	Root int
	Spec scrub.Spec
	// Manifest gets the image's manifest, if the image has one. It may be nil.
	Manifest *manifest.Manifest
	// Whole makes Manifest list every package and container image.
	Whole bool
	// Folder is for a copy of the root partition when Linux cannot mount the image's
	// format. Empty is the folder for temporary files.
	Folder string
}

// File audits the disk image in a file.
func (a Audit) File(ctx context.Context, path string) (plan.Report, error) {
	image, err := disk.Open(path)
	if err != nil {
		return plan.Report{}, err
	}
	defer image.Close()
	a.Image = image
	return a.Run(ctx)
}

// Worker does the work of Work.Run in the mounted root, and returns the answer.
type Worker func(ctx context.Context, root string, input []byte) ([]byte, error)

// DiskFile is the descriptor of the disk in a work. WorkFile is that of Work.Folder, also
// in processes that the work starts, and WorkFolder its path; Program is the path of
// Work.Program there.
const (
	DiskFile   = 3
	WorkFile   = 4
	WorkFolder = "/proc/self/fd/4"
	Program    = "/proc/self/fd/5"
)

// ErrNeedsRoot means that the process may not mount.
var ErrNeedsRoot = errors.New("only root may mount a file system: run the command with sudo")

// ErrNeedsLinux means that this system has no Linux to mount the file system with.
var ErrNeedsLinux = errors.New("only Linux can mount the file system: run the command on Linux, for example in a " +
	"virtual machine or in CI")

// Kinds of files that callers ask for.
const (
	File      = "file"
	Directory = "directory"
)

// Entry is a file of a disk.
type Entry struct {
	Path string
	// Kind is the kind of the file, as people call it, such as FIFO.
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

// Root is the partition whose files are listed.
type Root struct {
	Partition  int    `json:"partition"`
	FileSystem string `json:"file_system"`
	// Notes name the partitions that are not in the list.
	Notes []string `json:"-"`
}

// Head describes a list of files.
type Head struct {
	Root
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
