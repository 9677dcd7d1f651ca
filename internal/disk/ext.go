package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
)

const (
	extMagic = 0xef53
	// mostGroups limits the memory for the places of metadata. With the usual
	// groups of 128 MiB, it is enough for 128 TiB.
	mostGroups = 1 << 20
)

// Features of ext2, ext3 and ext4, from the kernel's fs/ext4/ext4.h.
const (
	compatHasJournal   = 0x4
	compatLazyBG       = 0x40
	compatSparseSuper2 = 0x200

	incompatRecover    = 0x4
	incompatJournalDev = 0x8
	incompatMetaBG     = 0x10
	incompat64bit      = 0x80
	incompatCsumSeed   = 0x2000
	// Filetype, recover, meta_bg, extents, 64bit, mmp, flex_bg, ea_inode,
	// csum_seed, large_dir, inline_data, encrypt and casefold.
	incompatKnown = 0x2 | incompatRecover | incompatMetaBG | 0x40 | incompat64bit | 0x100 | 0x200 | 0x400 |
		incompatCsumSeed | 0x4000 | 0x8000 | 0x10000 | 0x20000

	roSparseSuper  = 0x1
	roGdtCsum      = 0x10
	roBigalloc     = 0x200
	roMetadataCsum = 0x400
	// Sparse_super, large_file, btree_dir, huge_file, gdt_csum, dir_nlink,
	// extra_isize, quota, bigalloc, metadata_csum, read-only, project, verity and
	// orphan_present.
	roKnown = roSparseSuper | 0x2 | 0x4 | 0x8 | roGdtCsum | 0x20 | 0x40 | 0x100 | roBigalloc | roMetadataCsum |
		0x1000 | 0x2000 | 0x8000 | 0x10000
)

// ext is a file system of the ext family. Numbers are in blocks if nothing else
// is said.
type ext struct {
	r                        io.ReaderAt
	compat, incompat, ro     uint32
	block, ratio             int64
	blocks, first            int64
	perGroup, clustersPer    int64
	inodesPer, inodeSize     int64
	groups, descSize         int64
	reserved, firstMeta      int64
	backups                  [2]int64
	seed                     uint32
	uuid                     []byte
	superSum, storedSuperSum uint32
	sumType                  byte
	state                    uint16
}

// extKind is ext2, ext3 or ext4 by the features, as blkid decides.
func extKind(super []byte) string {
	le := binary.LittleEndian
	compat, incompat, ro := le.Uint32(super[92:]), le.Uint32(super[96:]), le.Uint32(super[100:])
	switch {
	case incompat&incompatJournalDev != 0:
		return "ext4 journal"
	case incompat&^(0x2|incompatRecover|incompatMetaBG) != 0 || ro&^7 != 0:
		return "ext4"
	case compat&compatHasJournal != 0:
		return "ext3"
	}
	return "ext2"
}

// openExt reads the superblock.
func openExt(r io.ReaderAt) (*ext, error) {
	s, err := bytesAt(r, 1024, 1024)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	u32 := func(at int) int64 { return int64(le.Uint32(s[at:])) }
	f := &ext{
		r: r, compat: le.Uint32(s[92:]), incompat: le.Uint32(s[96:]), ro: le.Uint32(s[100:]),
		blocks: u32(4), first: u32(20), perGroup: u32(32), clustersPer: u32(36), inodesPer: u32(40),
		inodeSize: int64(le.Uint16(s[88:])), descSize: 32, reserved: int64(le.Uint16(s[206:])), firstMeta: u32(260),
		backups: [2]int64{u32(588), u32(592)}, uuid: s[104:120], sumType: s[373], state: le.Uint16(s[58:]),
		superSum: crc(^uint32(0), s[:1020]), storedSuperSum: le.Uint32(s[1020:]),
	}
	blockLog, clusterLog := u32(24), u32(28)
	if blockLog > 6 || clusterLog > 20 || clusterLog < blockLog && f.ro&roBigalloc != 0 {
		return nil, fmt.Errorf("blocks of 2^%d and clusters of 2^%d KiB", blockLog, clusterLog)
	}
	f.block, f.ratio = 1024<<blockLog, 1
	if f.ro&roBigalloc != 0 {
		f.ratio = 1 << (clusterLog - blockLog)
	} else {
		f.clustersPer = f.perGroup
	}
	if f.incompat&incompat64bit != 0 {
		f.blocks |= u32(336) << 32
		f.descSize = int64(le.Uint16(s[254:]))
	}
	if u32(76) == 0 { // the first revision has no field for the size
		f.inodeSize = 128
	}
	f.seed = crc(^uint32(0), f.uuid)
	if f.incompat&incompatCsumSeed != 0 {
		f.seed = le.Uint32(s[624:])
	}
	return f, nil
}

// check returns why the bitmaps of the file system cannot be used.
func (f *ext) check(size int64) error {
	switch {
	case f.ro&roMetadataCsum != 0 && f.sumType != 1:
		return fmt.Errorf("checksums of type %d", f.sumType)
	case f.ro&roMetadataCsum != 0 && f.superSum != f.storedSuperSum:
		return errors.New("wrong checksum of the superblock")
	case f.incompat&^incompatKnown != 0:
		return fmt.Errorf("unknown incompatible features %#x", f.incompat&^incompatKnown)
	case f.ro&^roKnown != 0 || f.compat&compatLazyBG != 0:
		return fmt.Errorf("unknown features %#x", f.ro&^roKnown|f.compat&compatLazyBG)
	case f.incompat&incompatRecover != 0:
		return errors.New("the journal needs recovery, because the machine was not shut down cleanly")
	case f.state&1 == 0:
		return errors.New("not unmounted cleanly")
	case f.state&2 != 0:
		return errors.New("marked as damaged; run e2fsck")
	case f.blocks <= f.first || f.blocks > size/f.block:
		return fmt.Errorf("%d blocks of %d bytes in a partition of %d bytes", f.blocks, f.block, size)
	case f.first != 0 && (f.first != 1 || f.block != 1024 || f.ratio > 1):
		return fmt.Errorf("the first block is %d", f.first)
	case f.clustersPer == 0 || f.clustersPer > 8*f.block || f.clustersPer%8 != 0 || f.perGroup != f.clustersPer*f.ratio:
		return fmt.Errorf("groups of %d blocks and %d clusters", f.perGroup, f.clustersPer)
	case f.descSize < 32 || f.descSize > 1024 || f.descSize > f.block || f.descSize&(f.descSize-1) != 0 ||
		f.incompat&incompat64bit != 0 && f.descSize < 64:
		return fmt.Errorf("group descriptors of %d bytes", f.descSize)
	case f.inodeSize < 128 || f.inodeSize > f.block || f.inodesPer == 0 || f.inodesPer > 8*f.block:
		return fmt.Errorf("%d inodes of %d bytes in each group", f.inodesPer, f.inodeSize)
	}
	if f.groups = (f.blocks - f.first + f.perGroup - 1) / f.perGroup; f.groups > mostGroups {
		return fmt.Errorf("%d block groups", f.groups)
	}
	return nil
}

// extFree reads the block bitmaps of ext2, ext3 and ext4.
func extFree(r io.ReaderAt, size int64) (*ranges, int64, error) {
	f, err := openExt(r)
	if err == nil {
		err = f.check(size)
	}
	if err != nil {
		return nil, 0, err
	}
	s := &extScan{ext: f}
	perBlock := f.block / f.descSize
	for n := int64(0); n*perBlock < f.groups; n++ {
		at := f.descriptors(n)
		table, err := bytesAt(r, at*f.block, int(f.block))
		if err != nil {
			return nil, 0, fmt.Errorf("group descriptors in block %d: %w", at, err)
		}
		s.meta(at, 1)
		for i := range min(perBlock, f.groups-n*perBlock) {
			if err := s.group(n*perBlock+i, table[i*f.descSize:][:f.descSize]); err != nil {
				return nil, 0, fmt.Errorf("block group %d: %w", n*perBlock+i, err)
			}
		}
	}
	return s.free.without(s.used), f.blocks * f.block, nil
}

// descriptors is the block of the n-th block of group descriptors, as the kernel's
// descriptor_loc computes it.
func (f *ext) descriptors(n int64) int64 {
	super := int64(0)
	if f.block == 1024 {
		super = 1
	}
	if f.incompat&incompatMetaBG == 0 || n < f.firstMeta {
		return super + 1 + n
	}
	group := n * (f.block / f.descSize)
	at := f.first + group*f.perGroup
	if f.hasSuper(group) {
		at++
	}
	if f.block == 1024 && n == 0 && f.first == 0 {
		at++
	}
	return at
}

// hasSuper reports whether a group has a copy of the superblock.
func (f *ext) hasSuper(group int64) bool {
	switch {
	case group == 0:
		return true
	case f.compat&compatSparseSuper2 != 0:
		return slices.Contains(f.backups[:], group)
	case group == 1 || f.ro&roSparseSuper == 0:
		return true
	}
	for _, base := range []int64{3, 5, 7} {
		n := base
		for n < group {
			n *= base
		}
		if n == group {
			return true
		}
	}
	return false
}

// crc is CRC-32C as ext4 computes it: without the last inversion.
func crc(seed uint32, p []byte) uint32 {
	return ^crc32.Update(^seed, crc32.MakeTable(crc32.Castagnoli), p)
}

// crc16 is the checksum of the feature gdt_csum.
func crc16(sum uint16, p []byte) uint16 {
	for _, b := range p {
		sum ^= uint16(b)
		for range 8 {
			if sum&1 != 0 {
				sum = sum>>1 ^ 0xa001
			} else {
				sum >>= 1
			}
		}
	}
	return sum
}

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
