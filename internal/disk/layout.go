package disk

import (
	"iter"
)

// Layout is what a disk consists of.
type Layout struct {
	// Table is the kind of the partition table: "gpt", "mbr", or "" for a disk
	// without one. Partitions then has the whole disk as its only element.
	Table string
	// SectorSize is the size of sectors that the table assumes: 512 or 4096.
	SectorSize int
	// Partitions are in the order of their numbers.
	Partitions []Partition
	// Boot is how the disk boots.
	Boot Boot
	// Notes are facts that a person should see and that stop nothing.
	Notes []string
	// Free lists the bytes that are free, in ascending order.
	Free []Range

	size int64
}

// Partition is a partition, or a whole disk that has no partitions.
type Partition struct {
	// Number is Linux's number of the partition, or 0 for the whole disk.
	Number int
	Range
	// Type is the type in the table: a GUID in upper case, or "0x83".
	Type string
	// Role is what the type means, one of the constants Role…, or "".
	Role string
	// Name is the partition's name in a GPT.
	Name string
	// PartUUID is the partition's identifier as udev names it in by-partuuid, or ""
	// for a whole disk.
	PartUUID string
	// Kind is the file system, such as "ext4", or what else the partition
	// holds: one of the constants Kind…, or "" if unknown.
	Kind string
	// Label is the file system's label.
	Label string
	// UUID is the file system's identifier as blkid prints it, or "".
	UUID string
	// Free is the number of free bytes.
	Free int64
	// Whole is why the partition travels whole, or "" if its file system says
	// what is free.
	Whole string
	// Elsewhere says what part of the file system is on another device that the image
	// names, or is "". A kernel that mounts the partition can open that device.
	Elsewhere string
	// Dirty is set if the file system's journal has changes that are not in place
	// yet: what Linux shows after the next mount differs from what is on the disk.
	Dirty bool
}

// IsLinux reports whether the partition's file system can be a root.
func (p Partition) IsLinux() bool { return isLinux(p.Kind) }

// Used reports whether any of length bytes at off travels.
func (l *Layout) Used(off, length int64) bool {
	length = min(length, l.size-off)
	return length > 0 && total(within(l.Free, Range{off, length})) < length
}

// Blocks are the indexes of the blocks of BlockSize bytes that travel, in
// ascending order.
func (l *Layout) Blocks() iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for n := int64(0); n*BlockSize < l.size; n++ {
			if l.Used(n*BlockSize, BlockSize) && !yield(n) {
				return
			}
		}
	}
}

// ZeroFree overwrites the free bytes in p, which was read at off, with zeros. So
// deleted files do not travel in blocks that are partly used, and equal files
// give equal blocks.
func (l *Layout) ZeroFree(p []byte, off int64) {
	for _, r := range within(l.Free, Range{off, int64(len(p))}) {
		clear(p[r.Offset-off : r.End()-off])
	}
}

// UsedBytes is the number of bytes of the disk that are not free.
func (l *Layout) UsedBytes() int64 { return l.size - total(l.Free) }
