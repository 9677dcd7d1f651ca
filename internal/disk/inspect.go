package disk

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
)

const (
	// gapKept is how much before the first partition always travels: GRUB's
	// core.img is there, and no table lists it.
	gapKept = 32 << 20
	// bootKept travels in any case: boot loaders of BIOS are in the first MiB.
	bootKept = 1 << 20
)

// holes is what a disk that has holes can say.
type holes interface {
	Zero(off, length int64) bool
}

func inspect(r io.ReaderAt, size int64) (*Layout, error) {
	l, kept, err := readTable(r, size)
	if err != nil {
		return nil, err
	}
	if l.Table == "" {
		l.Partitions = []Partition{{Range: Range{0, size}}}
	} else if err := l.checkPartitions(); err != nil {
		return nil, err
	}
	if l.SectorSize != mbrSector {
		l.note("the partition table assumes sectors of %d bytes, but EBS volumes have sectors of 512 bytes: EC2 "+
			"cannot boot this disk", l.SectorSize)
	}
	for i := range l.Partitions {
		l.Partitions[i].recognize(l.Partitions[i].in(r))
	}
	byOffset := l.byOffset()
	free, end := &ranges{}, int64(0)
	for _, p := range byOffset {
		free.add(end, p.Offset-end)
		end = p.End()
		own, err := freeIn(r, p)
		if err != nil {
			whole := l.at(p.Number)
			whole.Whole, whole.Dirty = err.Error(), unreplayed(p.Kind, p.in(r))
			continue
		}
		for _, f := range own.list {
			free.add(p.Offset+f.Offset, f.Length)
		}
	}
	free.add(end, size-end)
	if l.Table != "" {
		kept = append(kept, Range{0, min(max(bootKept, min(byOffset[0].Offset, gapKept)), size)})
	}
	l.Free = free.without(kept).list
	for i, p := range l.Partitions {
		l.Partitions[i].Free = total(within(l.Free, p.Range))
	}
	l.findVolumes(r)
	l.findBoot(r)
	return l, nil
}

// readTable returns the partitions of a disk, or a Layout without a table, and
// the ranges of the table itself.
func readTable(r io.ReaderAt, size int64) (*Layout, []Range, error) {
	entries, ok := bootRecord(r, 0)
	if ok && slices.ContainsFunc(entries, func(e mbrEntry) bool { return e.kind == protective }) {
		l, kept, err := gptTable(r, size, true)
		if err != nil {
			return nil, nil, err
		}
		return l, append(kept, l.hybrid(entries)...), nil
	}
	if ok {
		if l, kept, err := mbrTable(r, size, entries); l != nil || err != nil {
			return l, kept, err
		}
	}
	if probe(r, size).kind == "" {
		l, kept, err := gptTable(r, size, false)
		if l != nil {
			l.note("the disk has a GPT without a protective MBR: Linux does not read this table; write one with " +
				"gdisk (command w)")
		}
		if l != nil || err != nil {
			return l, kept, err
		}
	}
	return &Layout{SectorSize: mbrSector, size: size}, nil, nil
}

// hybrid returns the partitions of a hybrid MBR that the GPT does not have.
func (l *Layout) hybrid(entries []mbrEntry) []Range {
	var kept []Range
	hybrid := func(e mbrEntry) bool { return !e.isEmpty() && e.kind != protective }
	if slices.ContainsFunc(entries, hybrid) {
		l.note("the disk has a hybrid MBR; the GPT is used")
	}
	for _, e := range entries {
		if hybrid(e) && !slices.ContainsFunc(l.Partitions, func(p Partition) bool { return p.Range == e.Range }) {
			kept = append(kept, e.Range)
		}
	}
	return kept
}

// checkPartitions refuses partitions that overlap or are not on the disk.
func (l *Layout) checkPartitions() error {
	if len(l.Partitions) == 0 {
		return errors.New("the partition table is empty; build the disk again")
	}
	sorted := l.byOffset()
	for i, p := range sorted {
		if p.End() > l.size {
			return beyond(p, l.size)
		}
		if p.Offset < mbrSector {
			return fmt.Errorf("partition %d begins at byte %d, in the partition table; build the disk again",
				p.Number, p.Offset)
		}
		if i > 0 && sorted[i-1].End() > p.Offset {
			return fmt.Errorf("the partitions %d and %d overlap; build the disk again", sorted[i-1].Number, p.Number)
		}
	}
	return nil
}

// byOffset are the partitions in the order of the disk.
func (l *Layout) byOffset() []Partition {
	byOffset := func(a, b Partition) int { return cmp.Compare(a.Offset, b.Offset) }
	return slices.SortedFunc(slices.Values(l.Partitions), byOffset)
}

// in reads the partition's bytes.
func (p Partition) in(r io.ReaderAt) io.ReaderAt { return io.NewSectionReader(r, p.Offset, p.Length) }

// recognize fills in what the signatures say. r has the partition's bytes.
func (p *Partition) recognize(r io.ReaderAt) {
	c := probe(r, p.Length)
	p.Kind, p.Label, p.UUID, p.Elsewhere = c.kind, c.label, c.uuid, elsewhere(c.kind, r)
}

// beyond is the error about a partition that ends after the disk.
func beyond(p Partition, size int64) error {
	return fmt.Errorf("the disk is truncated: partition %d ends at byte %d, but the disk has %d bytes; copy the "+
		"file again", p.Number, p.End(), size)
}

// at returns the partition with that number. It exists.
func (l *Layout) at(number int) *Partition {
	return &l.Partitions[slices.IndexFunc(l.Partitions, func(p Partition) bool { return p.Number == number })]
}

// freeIn returns what is free in a partition, from its start on. Bytes after the
// file system are free only if they are a hole: hashes of dm-verity and other
// metadata can be there, and the file system does not say.
func freeIn(r io.ReaderAt, p Partition) (*ranges, error) {
	free, end, err := freeSpace(p.Kind, p.in(r), p.Length)
	if err != nil {
		return nil, err
	}
	if h, ok := r.(holes); ok && end < p.Length && h.Zero(p.Offset+end, p.Length-end) {
		free.add(end, p.Length-end)
	}
	return free, nil
}
