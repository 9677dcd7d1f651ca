package diskbuild

import (
	"io"
	"os"
)

// Build is a disk image to make of another.
type Build struct {
	// Base is the path of a raw, qcow2 or fixed VHD image, and File that of the result:
	// .raw, .img or .qcow2.
	Base, File string
	// Force replaces a file.
	Force bool
	// SizeGiB is the size of the result; 0 keeps that of the base.
	SizeGiB int64
	// Root is the number of the root partition; 0 finds it.
	Root int
	// Folder is that of the work, see diskaudit.Work.
	Folder *os.File
	// Input is that of the work, see diskaudit.Work. Progress gets what the work says.
	Input    any
	Progress io.Writer
}
