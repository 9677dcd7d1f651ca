package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
)

// mostEntries limits the bytes of a GPT's entries. The usual size is 16 KiB.
const mostEntries = 1 << 20

// gpt is one of the two copies of a GUID partition table. The source is the UEFI
// specification, chapter 5.3.
type gpt struct {
	sector     int64
	header     Range
	entries    Range
	other      int64
	partitions []Partition
}

// readGPT reads the copy whose header is at byte off of a disk of size bytes.
func readGPT(r io.ReaderAt, size, off, sector int64) (*gpt, error) {
	p, err := bytesAt(r, off, int(sector))
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	length := le.Uint32(p[12:])
	if string(p[:8]) != "EFI PART" {
		return nil, errors.New("no signature")
	}
	if length < 92 || int64(length) > sector {
		return nil, fmt.Errorf("a header of %d bytes", length)
	}
	stored := le.Uint32(p[16:])
	clear(p[16:20])
	if crc32.ChecksumIEEE(p[:length]) != stored {
		return nil, errors.New("wrong checksum of the header")
	}
	lba := func(at int) (int64, error) {
		v := le.Uint64(p[at:])
		if v > uint64(1<<62/sector) {
			return 0, fmt.Errorf("sector %d in the header", v)
		}
		return int64(v) * sector, nil
	}
	own, err := lba(24)
	if err == nil && own != off {
		err = fmt.Errorf("the header says that it is at byte %d", own)
	}
	if err != nil {
		return nil, err
	}
	g := &gpt{sector: sector, header: Range{off, sector}}
	if g.other, err = lba(32); err != nil {
		return nil, err
	}
	number, each := int64(le.Uint32(p[80:])), int64(le.Uint32(p[84:]))
	if each < 128 || each%8 != 0 || number == 0 || number > mostEntries/each {
		return nil, fmt.Errorf("%d entries of %d bytes", number, each)
	}
	g.entries.Length = number * each
	if g.entries.Offset, err = lba(72); err != nil {
		return nil, err
	}
	if g.entries.End() > size {
		return nil, fmt.Errorf("entries up to byte %d", g.entries.End())
	}
	entries, err := bytesAt(r, g.entries.Offset, int(g.entries.Length))
	if err != nil {
		return nil, err
	}
	if crc32.ChecksumIEEE(entries) != le.Uint32(p[88:]) {
		return nil, errors.New("wrong checksum of the entries")
	}
	return g, g.parse(entries, each)
}

// parse fills the list of partitions.
func (g *gpt) parse(entries []byte, each int64) error {
	for i := range int64(len(entries)) / each {
		e := entries[i*each:][:each]
		kind := guid(e)
		if kind == "00000000-0000-0000-0000-000000000000" {
			continue
		}
		first, last := binary.LittleEndian.Uint64(e[32:]), binary.LittleEndian.Uint64(e[40:])
		if first > last || last >= uint64(1<<62/g.sector) || i >= volumeBase {
			return fmt.Errorf("partition %d from sector %d to %d", i+1, first, last)
		}
		g.partitions = append(g.partitions, Partition{
			Number: int(i) + 1, Type: kind, Role: gptRoles[kind], Name: utf16Text(e[56:128]),
			PartUUID: strings.ToLower(guid(e[16:])),
			Range:    Range{int64(first) * g.sector, int64(last-first+1) * g.sector},
		})
	}
	return nil
}

// guid is a GUID of a partition table as text. The first three fields are
// little-endian.
func guid(p []byte) string {
	le := binary.LittleEndian
	return fmt.Sprintf("%08X-%04X-%04X-%04X-%012X", le.Uint32(p), le.Uint16(p[4:]), le.Uint16(p[6:]), p[8:10], p[10:16])
}

// gptTable reads the GPT of a disk, or returns nil if the disk has none.
func gptTable(r io.ReaderAt, size int64, protected bool) (*Layout, []Range, error) {
	var damage error
	for _, sector := range []int64{512, 4096} {
		g, err := readGPT(r, size, sector, sector)
		if err == nil {
			return g.layout(r, size)
		}
		if has(r, sector, "EFI PART") {
			damage = fmt.Errorf("the primary GPT header at byte %d is damaged: %w", sector, err)
		}
		// The backup is in the last sector.
		if damage == nil && size >= 3*sector && has(r, (size/sector-1)*sector, "EFI PART") {
			damage = fmt.Errorf("the primary GPT header at byte %d is missing, but the backup at the end of the "+
				"disk exists", sector)
		}
	}
	if damage == nil && protected {
		damage = errors.New("the disk has a protective MBR, but the GPT header after it is missing")
	}
	if damage != nil {
		return nil, nil, fmt.Errorf("%w; repair the table with gdisk (commands r, b, w), or build the disk again",
			damage)
	}
	return nil, nil, nil
}

// layout returns the partitions, and the ranges of the table itself.
func (g *gpt) layout(r io.ReaderAt, size int64) (*Layout, []Range, error) {
	l := &Layout{Table: "gpt", SectorSize: int(g.sector), Partitions: g.partitions, size: size}
	kept := []Range{g.header, g.entries}
	if g.other+g.sector > size {
		return nil, nil, fmt.Errorf("the disk is truncated: the backup GPT header is at byte %d, but the disk has "+
			"%d bytes; copy the file again", g.other, size)
	}
	backup, err := readGPT(r, size, g.other, g.sector)
	if err != nil {
		l.Notes = append(l.Notes,
			fmt.Sprintf("the backup GPT header at byte %d is damaged (%v): repair it with sgdisk -e", g.other, err))
		return l, kept, nil
	}
	return l, append(kept, backup.header, backup.entries), nil
}

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
		entries = append(entries,
			mbrEntry{e[0] == 0x80, e[4], Range{int64(first) * mbrSector, int64(number) * mbrSector}})
	}
	return entries, true
}

func (e mbrEntry) isEmpty() bool { return e.kind == 0 || e.Length == 0 }

func (e mbrEntry) partition(n int, signature uint32) Partition {
	return Partition{Number: n, PartUUID: fmt.Sprintf("%08x-%02x", signature, n), Type: fmt.Sprintf("0x%02x", e.kind),
		Role: mbrRoles[e.kind], Range: e.Range}
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
				return nil, nil, fmt.Errorf("logical partition %d from byte %d to %d is outside; build the disk "+
					"again", 5+len(all), e.Offset, e.End())
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
			return nil, nil, fmt.Errorf("the boot record at byte %d has the next one at byte %d; build the disk "+
				"again", at, next.Offset+extended.Offset)
		}
		at = next.Offset + extended.Offset
	}
	return nil, nil, fmt.Errorf("more than %d logical partitions", mostLogical)
}
