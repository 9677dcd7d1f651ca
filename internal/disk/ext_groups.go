package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const blockUninit = 0x2

// extScan collects the free blocks of a file system, group by group.
type extScan struct {
	*ext
	free ranges
	// used are the ranges of metadata. They are used even if a bitmap is wrong.
	used []Range
}

// meta adds blocks of metadata, with all blocks of their clusters.
func (s *extScan) meta(block, number int64) {
	from := block - (block-s.first)%s.ratio
	to := block + number + (s.ratio-(block+number-s.first)%s.ratio)%s.ratio
	s.used = append(s.used, Range{from * s.block, (to - from) * s.block})
}

// group reads one block group.
func (s *extScan) group(n int64, d []byte) error {
	if err := s.checkSum(n, d); err != nil {
		return err
	}
	le := binary.LittleEndian
	wide := len(d) >= 64
	number := func(low, high int) int64 {
		v := int64(le.Uint32(d[low:]))
		if wide {
			v |= int64(le.Uint32(d[high:])) << 32
		}
		return v
	}
	bitmap, inodes, table := number(0, 32), number(4, 36), number(8, 40)
	tableLength := (s.inodesPer*s.inodeSize + s.block - 1) / s.block
	for _, at := range []int64{bitmap, inodes, table, table + tableLength - 1} {
		if at <= s.first || at >= s.blocks {
			return fmt.Errorf("metadata in block %d of %d", at, s.blocks)
		}
	}
	s.meta(bitmap, 1)
	s.meta(inodes, 1)
	s.meta(table, tableLength)
	begin := s.first + n*s.perGroup
	end := min(begin+s.perGroup, s.blocks)
	if s.hasSums() && le.Uint16(d[18:])&blockUninit != 0 {
		s.uninitialized(n, begin, end)
		return nil
	}
	free := int64(le.Uint16(d[12:]))
	if wide {
		free |= int64(le.Uint16(d[44:])) << 16
	}
	p, err := bytesAt(s.r, bitmap*s.block, int(s.block))
	if err != nil {
		return fmt.Errorf("block bitmap: %w", err)
	}
	if err := s.checkBitmap(p[:s.clustersPer/8], d); err != nil {
		return err
	}
	if got := s.clear(p, begin, end); got != free {
		return fmt.Errorf("%d clusters are free in the bitmap, and %d in the descriptor", got, free)
	}
	return nil
}

// clear adds the clusters whose bits are clear, and returns their number.
func (s *extScan) clear(bitmap []byte, begin, end int64) int64 {
	var free int64
	clusters := (end - begin + s.ratio - 1) / s.ratio
	for i := int64(0); i < clusters; {
		switch b := bitmap[i/8]; {
		case i%8 == 0 && b == 0xff:
			i += 8
			continue
		case b>>(i%8)&1 == 1:
			i++
			continue
		}
		from := i
		for i < clusters && bitmap[i/8]>>(i%8)&1 == 0 {
			if i%8 == 0 && bitmap[i/8] == 0 && i+8 <= clusters {
				i += 8
			} else {
				i++
			}
		}
		free += i - from
		start, stop := begin+from*s.ratio, min(begin+i*s.ratio, end)
		s.free.add(start*s.block, (stop-start)*s.block)
	}
	return free
}

// uninitialized adds a group whose bitmap was never written. It has nothing but
// metadata: its own, and that of other groups, which they name. The copy of the
// superblock may take more blocks here than it has.
func (s *extScan) uninitialized(n, begin, end int64) {
	copies := int64(0)
	if s.incompat&incompatMetaBG != 0 {
		copies = 3
	}
	if s.hasSuper(n) {
		perBlock := s.block / s.descSize
		copies += 2 + (s.groups+perBlock-1)/perBlock + s.reserved
	}
	s.meta(begin, min(copies, end-begin))
	s.free.add(begin*s.block, (end-begin)*s.block)
}

// hasSums reports whether descriptors have checksums. Without them, the flag of
// uninitialized groups has no meaning.
func (s *extScan) hasSums() bool { return s.ro&(roGdtCsum|roMetadataCsum) != 0 }

// checkSum compares a descriptor with its checksum.
func (s *extScan) checkSum(n int64, d []byte) error {
	const at = 30
	group := binary.LittleEndian.AppendUint32(nil, uint32(n))
	var want uint16
	switch {
	case s.ro&roMetadataCsum != 0:
		sum := crc(crc(crc(s.seed, group), d[:at]), []byte{0, 0})
		want = uint16(crc(sum, d[at+2:]))
	case s.ro&roGdtCsum != 0:
		sum := crc16(crc16(crc16(0xffff, s.uuid), group), d[:at])
		want = crc16(sum, d[at+2:])
	default:
		return nil
	}
	if binary.LittleEndian.Uint16(d[at:]) != want {
		return errors.New("wrong checksum of the descriptor")
	}
	return nil
}

// checkBitmap compares a block bitmap with the checksum in its descriptor. A
// descriptor of 32 bytes has the lower half only.
func (s *extScan) checkBitmap(bitmap, d []byte) error {
	if s.ro&roMetadataCsum == 0 {
		return nil
	}
	sum := crc(s.seed, bitmap)
	stored := uint32(binary.LittleEndian.Uint16(d[24:]))
	if len(d) >= 64 {
		stored |= uint32(binary.LittleEndian.Uint16(d[56:])) << 16
	} else {
		sum &= 0xffff
	}
	if sum != stored {
		return errors.New("wrong checksum of the block bitmap")
	}
	return nil
}
