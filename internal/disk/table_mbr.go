package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	mbrSector = 512
	// mostLogical is the number of logical partitions that are read.
	mostLogical = 128
	protective  = 0xee
)

// mbrEntry is one of the four entries of a boot record.
type mbrEntry struct {
	active bool
	kind   byte
	Range
}

// isExtended reports whether an entry holds logical partitions.
func (e mbrEntry) isExtended() bool { return e.kind == 0x05 || e.kind == 0x0f || e.kind == 0x85 }

// bootRecord reads the four entries of the boot record at an offset. ok is false
// if there is none. Sectors have 512 bytes: Linux finds no MBR on other disks that
// EC2 could start.
func bootRecord(r io.ReaderAt, off int64) (entries []mbrEntry, ok bool) {
	p, err := bytesAt(r, off, mbrSector)
	if err != nil || p[510] != 0x55 || p[511] != 0xaa {
		return nil, false
	}
	for i := range 4 {
		e := p[446+16*i:][:16]
		if e[0] != 0 && e[0] != 0x80 {
			return nil, false // the code of a file system's boot sector
		}
		first, number := binary.LittleEndian.Uint32(e[8:]), binary.LittleEndian.Uint32(e[12:])
		entries = append(entries, mbrEntry{e[0] == 0x80, e[4], Range{int64(first) * mbrSector, int64(number) * mbrSector}})
	}
	return entries, true
}

// isEmpty reports whether an entry has no partition.
func (e mbrEntry) isEmpty() bool { return e.kind == 0 || e.Length == 0 }

// partition is the entry as partition number n of the disk with that signature.
func (e mbrEntry) partition(n int, signature uint32) Partition {
	return Partition{Number: n, PartUUID: fmt.Sprintf("%08x-%02x", signature, n), Type: fmt.Sprintf("0x%02x", e.kind), Role: mbrRoles[e.kind], Range: e.Range}
}

// mbrTable reads the primary and logical partitions of a disk. It returns nil if
// the entries have no partition.
func mbrTable(r io.ReaderAt, size int64, entries []mbrEntry) (*Layout, []Range, error) {
	l := &Layout{Table: "mbr", SectorSize: mbrSector, size: size}
	kept := []Range{{0, mbrSector}}
	extended := 0
	var logical []Partition
	var signature uint32
	if p, err := bytesAt(r, 440, 4); err == nil {
		signature = binary.LittleEndian.Uint32(p)
	}
	for i, e := range entries {
		switch {
		case e.isEmpty():
		case e.isExtended():
			if extended++; extended > 1 {
				return nil, nil, errors.New("the MBR has two extended partitions; build the disk again")
			}
			if e.End() > size {
				return nil, nil, beyond(e.partition(i+1, signature), size)
			}
			var records []Range
			var err error
			logical, records, err = logicalPartitions(r, e.Range, signature)
			if err != nil {
				return nil, nil, fmt.Errorf("extended partition %d: %w", i+1, err)
			}
			kept = append(kept, records...)
		default:
			l.Partitions = append(l.Partitions, e.partition(i+1, signature))
		}
	}
	l.Partitions = append(l.Partitions, logical...)
	if len(l.Partitions) == 0 && extended == 0 {
		return nil, nil, nil
	}
	return l, kept, nil
}

// logicalPartitions follows the chain of boot records in an extended partition.
// It returns the partitions from number 5 on, and the records with the gap before
// each partition, up to 1 MiB.
func logicalPartitions(r io.ReaderAt, extended Range, signature uint32) ([]Partition, []Range, error) {
	var all []Partition
	var records []Range
	at := extended.Offset
	for range mostLogical {
		entries, ok := bootRecord(r, at)
		if !ok {
			return nil, nil, fmt.Errorf("no boot record at byte %d; build the disk again", at)
		}
		record := Range{at, mbrSector}
		if e := entries[0]; !e.isEmpty() {
			e.Offset += at
			if e.Offset <= at || e.End() > extended.End() {
				return nil, nil, fmt.Errorf("logical partition %d from byte %d to %d is outside; build the disk again", 5+len(all), e.Offset, e.End())
			}
			record.Length = min(e.Offset-at, 1<<20)
			all = append(all, e.partition(5+len(all), signature))
		}
		records = append(records, record)
		next := entries[1]
		if next.isEmpty() || !next.isExtended() {
			return all, records, nil
		}
		// Offsets of records count from the extended partition. The chain
		// goes up, so it cannot be a circle.
		if next.Offset+extended.Offset <= at || next.Offset+extended.Offset >= extended.End() {
			return nil, nil, fmt.Errorf("the boot record at byte %d has the next one at byte %d; build the disk again", at, next.Offset+extended.Offset)
		}
		at = next.Offset + extended.Offset
	}
	return nil, nil, fmt.Errorf("more than %d logical partitions", mostLogical)
}
