package disk

import (
	"cmp"
	"iter"
	"slices"
	"sort"
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
	// Volumes are the logical volumes of LVM, which lie in partitions. Those with
	// Elsewhere cannot be read.
	Volumes []Partition
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
	// Volume is the name of a logical volume with that of its group, "vg/root", or ""
	// for a partition.
	Volume string
	// Extents are the places of a logical volume on the disk, in its own order. A
	// volume with one extent lies where Range says.
	Extents []Range
	// Opened is set if the logical volumes in a physical volume are in Layout.Volumes.
	Opened bool
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

// All are the partitions and the logical volumes.
func (l *Layout) All() []Partition { return slices.Concat(l.Partitions, l.Volumes) }

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

// Roles of a partition, by its type.
const (
	RoleRoot = "root"
	RoleESP  = "EFI system"
	RoleBIOS = "BIOS boot"
	RoleBoot = "boot"
	RoleUsr  = "usr"
	RoleHome = "home"
	RoleSrv  = "srv"
	RoleVar  = "var"
	RoleTmp  = "var-tmp"
	RoleData = "data"
	RoleSwap = "swap"
	RoleLVM  = "LVM"
	RoleRAID = "RAID"
	RoleLUKS = "LUKS"
	RoleHash = "verity"
)

// gptRoles has the types of the Discoverable Partitions Specification for the
// architectures of EC2, and those of gdisk.
var gptRoles = map[string]string{
	"4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709": RoleRoot, // x86-64
	"B921B045-1DF0-41C3-AF44-4C6F280D3FAE": RoleRoot, // arm64
	"C12A7328-F81F-11D2-BA4B-00A0C93EC93B": RoleESP,
	"21686148-6449-6E6F-744E-656564454649": RoleBIOS,
	"9E1A2D38-C612-4316-AA26-8B49521E5A8B": RoleBIOS, // PReP
	"BC13C2FF-59E6-4262-A352-B275FD6F7172": RoleBoot, // XBOOTLDR
	"8484680C-9521-48C6-9C11-B0720656F69E": RoleUsr,  // x86-64
	"B0E01050-EE5F-4390-949A-9101B17104E9": RoleUsr,  // arm64
	"5DFBF5F4-2848-4BAC-AA5E-0D9A20B745A6": RoleUsr,  // Flatcar
	"3884DD41-8582-4404-B9A8-E9B84F2DF50E": RoleRoot, // Flatcar
	"C95DC21A-DF0E-4340-8D7B-26CBFA9A03E0": RoleData, // Flatcar, reserved
	"933AC7E1-2EB4-4F13-B844-0E14E2AEF915": RoleHome,
	"773F91EF-66D4-49B5-BD83-D683BF40AD16": RoleData, // a user's home
	"3B8F8425-20E0-4F3B-907F-1A25A76F98E8": RoleSrv,
	"4D21B016-B534-45C2-A9FB-5C16E091FD2D": RoleVar,
	"7EC6F557-3BC5-4ACA-B293-16EF5DF639D1": RoleTmp,
	"0657FD6D-A4AB-43C4-84E5-0933C84B4F4F": RoleSwap,
	"E6D6D379-F507-44C2-A23C-238F2A3DF928": RoleLVM,
	"A19D880F-05FC-4D3B-A006-743F0F84911E": RoleRAID,
	"CA7D7CCB-63ED-4C53-861C-1742536059CC": RoleLUKS,
	"2C7357ED-EBD2-46D9-AEC1-23D437EC2BF5": RoleHash, // x86-64, of root
	"DF3300CE-D69F-4C92-978C-9BFB0F38D820": RoleHash, // arm64, of root
	"77FF5F63-E7B6-4633-ACF4-1565B864C0E6": RoleHash, // x86-64, of /usr
	"6E11A4E7-FBCA-4DED-B9E9-E1A512BB664E": RoleHash, // arm64, of /usr
	"41092B05-9FC8-4523-994F-2DEF0408B176": RoleHash, // x86-64, signature of root
	"6DB69DE6-29F4-4758-A7A5-962190F00CE3": RoleHash, // arm64, signature of root
	"E7BB33FB-06CF-4E81-8273-E543B413E2E2": RoleHash, // x86-64, signature of /usr
	"C23CE4FF-44BD-4B00-B2D4-B41B3419E02A": RoleHash, // arm64, signature of /usr
}

// mbrRoles has the types of an MBR that matter.
var mbrRoles = map[byte]string{
	0xef: RoleESP,
	0x41: RoleBIOS, // PReP
	0x82: RoleSwap,
	0x8e: RoleLVM,
	0xfd: RoleRAID,
	0xe8: RoleLUKS,
	0xea: RoleBoot,
}

// Range is a number of bytes of the disk, from Offset on.
type Range struct{ Offset, Length int64 }

// End is the offset after the last byte.
func (r Range) End() int64 { return r.Offset + r.Length }

// mostRanges limits the memory for a list of ranges to 16 MiB.
const mostRanges = 1 << 20

// ranges is a list of ranges in ascending order that do not touch. When the list
// becomes too long, it drops its shortest ranges, so it suits free space and no
// other use: free space that is taken as used is never wrong.
type ranges struct {
	list []Range
	// least is the length of the shortest ranges that are kept.
	least int64
}

// add appends a range that begins at or after the end of the last one.
func (s *ranges) add(offset, length int64) {
	if length <= 0 {
		return
	}
	if n := len(s.list); n > 0 && s.list[n-1].End() == offset {
		s.list[n-1].Length += length
		return
	}
	s.trim()
	s.list = append(s.list, Range{offset, length})
}

// trim drops the last range if it is too short, and many if the list is too
// long.
func (s *ranges) trim() {
	if n := len(s.list); n > 0 && s.list[n-1].Length < s.least {
		s.list = s.list[:n-1]
	}
	for len(s.list) >= mostRanges {
		s.least = max(2*s.least, 8<<10)
		kept := s.list[:0]
		for _, r := range s.list {
			if r.Length >= s.least {
				kept = append(kept, r)
			}
		}
		s.list = kept
	}
}

// without returns the ranges of s outside the ranges of used, which are in any
// order and may overlap.
func (s *ranges) without(used []Range) *ranges {
	used = merged(used)
	rest := &ranges{}
	for _, r := range s.list {
		from := r.Offset
		for _, u := range within(used, r) {
			rest.add(from, u.Offset-from)
			from = u.End()
		}
		rest.add(from, r.End()-from)
	}
	return rest
}

// merged returns the same bytes in ascending order and without overlaps.
func merged(list []Range) []Range {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Range) int { return cmp.Compare(a.Offset, b.Offset) })
	var all []Range
	for _, r := range list {
		if n := len(all); n > 0 && r.Offset <= all[n-1].End() {
			all[n-1].Length = max(all[n-1].End(), r.End()) - all[n-1].Offset
		} else {
			all = append(all, r)
		}
	}
	return all
}

// extents is a list of ranges in ascending order. When it becomes too long, it
// closes its shortest gaps, so it suits what is read and no other use.
type extents struct {
	list []Range
	// least is the length of the shortest gaps that are kept.
	least int64
}

func (s *extents) add(offset, length int64) {
	if n := len(s.list); n > 0 && offset-s.list[n-1].End() <= s.least {
		s.list[n-1].Length = offset + length - s.list[n-1].Offset
		return
	}
	if len(s.list) >= mostRanges {
		s.least = max(2*s.least, 64<<10)
		all := s.list
		s.list = all[:0]
		for _, r := range all {
			s.add(r.Offset, r.Length)
		}
	}
	s.list = append(s.list, Range{offset, length})
}

// within returns the parts of list that lie in r. The list is in ascending order
// and has no overlaps.
func within(list []Range, r Range) []Range {
	first := sort.Search(len(list), func(i int) bool { return list[i].End() > r.Offset })
	var parts []Range
	for _, part := range list[first:] {
		if part.Offset >= r.End() {
			break
		}
		from := max(part.Offset, r.Offset)
		parts = append(parts, Range{from, min(part.End(), r.End()) - from})
	}
	return parts
}

func total(list []Range) int64 {
	var sum int64
	for _, r := range list {
		sum += r.Length
	}
	return sum
}
