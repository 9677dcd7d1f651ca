package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
)

// alignment is the unit in which partitions begin and end.
const alignment = 1 << 20

// Grow makes a raw disk larger, to size bytes, with the partition of that number, which
// must be the last. It returns the partition's new place. The file system keeps its size.
func (l *Layout) Grow(file *os.File, number int, size int64) (Range, error) {
	r, err := l.grow(file, number, size)
	if err != nil {
		return r, fmt.Errorf("growing the disk from %d to %d bytes: %w", l.size, size, err)
	}
	return r, nil
}

func (l *Layout) grow(file *os.File, number int, size int64) (Range, error) {
	var grown Partition
	if number > volumeBase {
		return Range{}, errors.New("the root is on a logical volume, which does not grow here; leave the size out")
	}
	for _, p := range l.Partitions {
		if p.Number == number {
			grown = p
		}
	}
	for _, p := range l.Partitions {
		if p.Offset > grown.Offset {
			return Range{}, fmt.Errorf("partition %s is not the last: partition %s follows; take a base image with "+
				"the root at the end", grown, p)
		}
	}
	if size <= l.size {
		return Range{}, errors.New("a disk cannot become smaller; give a larger size, or none")
	}
	if err := file.Truncate(size); err != nil {
		return Range{}, err
	}
	switch l.Table {
	case "gpt":
		return growGPT(file, int64(l.SectorSize), grown, size)
	case "mbr":
		return growMBR(file, grown, size)
	}
	return Range{0, size}, nil
}

// growMBR changes one of the four entries of the boot record.
func growMBR(file *os.File, p Partition, size int64) (Range, error) {
	if p.Number > 4 {
		return Range{}, fmt.Errorf("partition %s is a logical one; take a base image with a primary partition or a "+
			"GPT", p)
	}
	end := max(p.End(), min(size/alignment*alignment, math.MaxUint32*mbrSector))
	sectors := binary.LittleEndian.AppendUint32(nil, uint32((end-p.Offset)/mbrSector))
	if _, err := file.WriteAt(sectors, int64(446+16*(p.Number-1)+12)); err != nil {
		return Range{}, err
	}
	return Range{p.Offset, end - p.Offset}, nil
}

// growGPT changes both copies of the table: the backup moves to the end of the disk.
func growGPT(file *os.File, sector int64, p Partition, size int64) (Range, error) {
	g, err := readGPT(file, size, sector, sector)
	if err != nil {
		return Range{}, fmt.Errorf("reading the GPT: %w", err)
	}
	entries, err := bytesAt(file, g.entries.Offset, int(g.entries.Length))
	if err != nil {
		return Range{}, err
	}
	header, err := bytesAt(file, sector, int(sector))
	if err != nil {
		return Range{}, err
	}
	le := binary.LittleEndian
	last := size/sector - 1
	backup := last - (g.entries.Length+sector-1)/sector // of the entries
	end := max(p.End(), backup*sector/alignment*alignment)
	each := int64(le.Uint32(header[84:]))
	le.PutUint64(entries[int64(p.Number-1)*each+40:], uint64(end/sector-1))

	le.PutUint64(header[48:], uint64(backup-1)) // last usable
	le.PutUint32(header[88:], crc32.ChecksumIEEE(entries))
	write := func(own, other, at int64) error {
		le.PutUint64(header[24:], uint64(own))
		le.PutUint64(header[32:], uint64(other))
		le.PutUint64(header[72:], uint64(at))
		clear(header[16:20])
		le.PutUint32(header[16:], crc32.ChecksumIEEE(header[:le.Uint32(header[12:])]))
		_, err := file.WriteAt(entries, at*sector)
		if err == nil {
			_, err = file.WriteAt(header, own*sector)
		}
		return err
	}
	if err := errors.Join(write(last, 1, backup), write(1, last, g.entries.Offset/sector)); err != nil {
		return Range{}, err
	}
	if g.other >= p.End() && g.other < last*sector { // the old backup
		if _, err := file.WriteAt(make([]byte, sector), g.other); err != nil {
			return Range{}, err
		}
	}
	return Range{p.Offset, end - p.Offset}, growProtective(file, size)
}

// growProtective lets the protective MBR cover the disk.
func growProtective(file *os.File, size int64) error {
	entries, ok := bootRecord(file, 0)
	if !ok || entries[0].kind != protective {
		return nil
	}
	sectors := binary.LittleEndian.AppendUint32(nil, uint32(min(size/mbrSector-1, math.MaxUint32)))
	_, err := file.WriteAt(sectors, 446+12)
	return err
}
