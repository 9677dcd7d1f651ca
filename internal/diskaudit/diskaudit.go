// Package diskaudit audits the file systems of a disk image. It mounts them read-only,
// in a process with a mount namespace of its own: no other process sees the mounts, and
// they end with the process, even after a crash. Linux reads the file systems, because
// libraries that do so can read wrong content without an error.
package diskaudit

import (
	"errors"

	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// Audit says what to audit.
type Audit struct {
	Image  *disk.Image
	Layout *disk.Layout
	// Root is the number of the root partition; 0 finds it.
	Root int
	Spec scrub.Spec
	// Manifest gets the image's manifest, if the image has one. It may be nil.
	Manifest *manifest.Manifest
	// Folder is for a copy of the root partition when Linux cannot mount the image's
	// format. Empty is the folder for temporary files.
	Folder string
}

// ErrNeedsRoot means that the process may not mount.
var ErrNeedsRoot = errors.New("only root may mount a file system: run the command with sudo")

// ErrNeedsLinux means that this system has no Linux to mount the file system with.
var ErrNeedsLinux = errors.New("only Linux can mount the file system: run the command on Linux, for example in a virtual machine or in CI")
