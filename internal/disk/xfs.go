package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Features of XFS version 5, from the kernel's fs/xfs/libxfs/xfs_format.h.
const (
	// Free inode btree, reverse mapping btree, reference counts, and counts of
	// inode btree blocks.
	xfsRoKnown = 0xf
	// Ftype, sparse inodes, meta_uuid, bigtime, nrext64, exchange-range and
	// parent pointers. The others, such as needsrepair and zoned, are unknown.
	xfsIncompatKnown = 0x1 | xfsSparseInodes | xfsMetaUUID | 0x8 | 0x20 | 0x40 | 0x80
	xfsSparseInodes  = 0x2
	xfsMetaUUID      = 0x4
	// mostAGs is far above what mkfs.xfs makes.
	mostAGs = 1 << 20
)

// xfs is an XFS file system. The source is the kernel's
// Documentation/filesystems/xfs and libxfs.
type xfs struct {
	r                         io.ReaderAt
	block, sector             int64
	blocks, agBlocks, ags     int64
	agLog                     uint
	logStart, logBlocks       int64
	realtime                  int64
	version                   uint16
	ro, incompat, logIncompat uint32
	free                      int64
	uuid                      []byte
	metaUUID                  []byte
	inProgress, wrong         bool
}

// openXFS reads the superblock.
func openXFS(r io.ReaderAt) (*xfs, error) {
	s, err := bytesAt(r, 0, 512)
	if err != nil {
		return nil, err
	}
	be := binary.BigEndian
	f := &xfs{
		r: r, block: int64(be.Uint32(s[4:])), sector: int64(be.Uint16(s[102:])), realtime: int64(be.Uint64(s[16:])),
		blocks: int64(be.Uint64(s[8:])), agBlocks: int64(be.Uint32(s[84:])), ags: int64(be.Uint32(s[88:])),
		agLog: uint(s[124]), logStart: int64(be.Uint64(s[48:])), logBlocks: int64(be.Uint32(s[96:])),
		version: be.Uint16(s[100:]) & 0xf, inProgress: s[126] != 0, free: int64(be.Uint64(s[144:])),
		uuid: s[32:48], metaUUID: s[32:48],
	}
	if f.version < 5 {
		return f, nil
	}
	f.ro, f.incompat, f.logIncompat = be.Uint32(s[212:]), be.Uint32(s[216:]), be.Uint32(s[220:])
	if f.incompat&xfsMetaUUID != 0 {
		f.metaUUID = s[248:264]
	}
	if f.sector < 512 || f.sector > 32<<10 {
		return nil, fmt.Errorf("sectors of %d bytes", f.sector)
	}
	whole, err := bytesAt(r, 0, int(f.sector))
	if err != nil {
		return nil, err
	}
	f.wrong = !xfsSum(whole, 224)
	return f, nil
}

// xfsSum reports whether the checksum at an offset in a block is right.
func xfsSum(p []byte, at int) bool {
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := crc32.Update(0, table, p[:at])
	sum = crc32.Update(sum, table, make([]byte, 4))
	return crc32.Update(sum, table, p[at+4:]) == binary.LittleEndian.Uint32(p[at:])
}

// check returns why the free-space trees cannot be used.
func (f *xfs) check(size int64) error {
	switch {
	case f.version != 4 && f.version != 5:
		return fmt.Errorf("version %d", f.version)
	case f.wrong:
		return errors.New("wrong checksum of the superblock")
	case f.incompat&^xfsIncompatKnown != 0:
		return fmt.Errorf("unknown incompatible features %#x", f.incompat&^xfsIncompatKnown)
	case f.ro&^xfsRoKnown != 0:
		return fmt.Errorf("unknown features %#x", f.ro&^xfsRoKnown)
	case f.inProgress:
		return errors.New("mkfs.xfs did not finish")
	case f.realtime != 0:
		return errors.New("a realtime device belongs to the file system")
	case f.logStart == 0:
		return errors.New("the log is on another device")
	case f.block < 512 || f.block > 64<<10 || f.block&(f.block-1) != 0:
		return fmt.Errorf("blocks of %d bytes", f.block)
	case f.sector < 512 || f.sector > f.block || f.sector&(f.sector-1) != 0:
		return fmt.Errorf("sectors of %d bytes", f.sector)
	case f.blocks <= 0 || f.blocks > size/f.block:
		return fmt.Errorf("%d blocks of %d bytes in a partition of %d bytes", f.blocks, f.block, size)
	case f.agLog == 0 || f.agLog > 31 || f.agBlocks > 1<<f.agLog || f.agBlocks <= 4*f.sector/f.block:
		return fmt.Errorf("allocation groups of %d blocks", f.agBlocks)
	case f.ags == 0 || f.ags > mostAGs || (f.ags-1)*f.agBlocks >= f.blocks || f.ags*f.agBlocks < f.blocks:
		return fmt.Errorf("%d allocation groups of %d blocks", f.ags, f.agBlocks)
	}
	return f.checkLog()
}

// xfsFree reads the trees of free space by block number.
func xfsFree(r io.ReaderAt, size int64) (*ranges, int64, error) {
	f, err := openXFS(r)
	if err == nil {
		err = f.check(size)
	}
	if err != nil {
		return nil, 0, err
	}
	free := &ranges{}
	var counted int64
	for n := range f.ags {
		ag := xfsAG{xfs: f, number: n, start: n * f.agBlocks, blocks: min(f.agBlocks, f.blocks-n*f.agBlocks)}
		if err := ag.read(free); err != nil {
			return nil, 0, fmt.Errorf("allocation group %d: %w", n, err)
		}
		counted += ag.counted
	}
	if counted != f.free {
		return nil, 0, fmt.Errorf("%d blocks are free in the allocation groups, and %d in the superblock", counted,
			f.free)
	}
	return free, f.blocks * f.block, nil
}

// xfsAG is one allocation group.
type xfsAG struct {
	*xfs
	number, start, blocks int64
	// next is the first block that may be free: extents are in ascending order.
	next, sum int64
	// left is the number of blocks of the tree that may still be read.
	left int64
	// counted is the group's part of the superblock's number of free blocks.
	counted int64
}

// read reads the group's header and the tree that it names.
func (a *xfsAG) read(free *ranges) error {
	p, err := bytesAt(a.r, a.start*a.block+a.sector, int(a.sector))
	if err != nil {
		return fmt.Errorf("AGF: %w", err)
	}
	be := binary.BigEndian
	switch {
	case string(p[:4]) != "XAGF":
		return errors.New("the AGF has no signature")
	case a.version == 5 && !xfsSum(p, 216):
		return errors.New("wrong checksum of the AGF")
	case a.version == 5 && !bytes.Equal(p[64:80], a.metaUUID):
		return errors.New("the AGF belongs to another file system")
	case int64(be.Uint32(p[8:])) != a.number || int64(be.Uint32(p[12:])) != a.blocks:
		return errors.New("the AGF belongs to another group")
	}
	listed, inTree := int64(be.Uint32(p[48:])), int64(be.Uint32(p[60:]))
	stated := int64(be.Uint32(p[52:]))
	a.left = a.blocks
	if err := a.tree(int64(be.Uint32(p[16:])), int64(be.Uint32(p[28:]))-1, free); err != nil {
		return err
	}
	if a.sum != stated {
		return fmt.Errorf("%d blocks are free in the tree, and %d in the AGF", a.sum, stated)
	}
	a.counted = stated + listed + inTree
	return nil
}

// tree reads a block of the tree and everything below it.
func (a *xfsAG) tree(at, level int64, free *ranges) error {
	if a.left--; a.left < 0 || level < 0 || level > 16 || at <= 0 || at >= a.blocks {
		return fmt.Errorf("block %d at level %d is not in the tree", at, level)
	}
	p, err := bytesAt(a.r, (a.start+at)*a.block, int(a.block))
	if err != nil {
		return fmt.Errorf("block %d of the tree: %w", at, err)
	}
	be := binary.BigEndian
	magic, header := "ABTB", int64(16)
	if a.version == 5 {
		magic, header = "AB3B", 56
	}
	number := int64(be.Uint16(p[6:]))
	per := int64(8)
	if level > 0 {
		per = 12
	}
	switch {
	case string(p[:4]) != magic || int64(be.Uint16(p[4:])) != level:
		return fmt.Errorf("block %d is no part of the tree", at)
	case a.version == 5 && !xfsSum(p, 52):
		return fmt.Errorf("wrong checksum of block %d", at)
	case a.version == 5 && (!bytes.Equal(p[32:48], a.metaUUID) || int64(be.Uint32(p[48:])) != a.number ||
		int64(be.Uint64(p[16:])) != (a.start+at)*(a.block/512)):
		return fmt.Errorf("block %d belongs to another tree", at)
	case number > (a.block-header)/per:
		return fmt.Errorf("%d records in block %d", number, at)
	}
	if level == 0 {
		return a.leaf(p[header:], number, free)
	}
	children := header + (a.block-header)/per*8
	for i := range number {
		if err := a.tree(int64(be.Uint32(p[children+4*i:])), level-1, free); err != nil {
			return err
		}
	}
	return nil
}

// leaf adds the extents of free blocks.
func (a *xfsAG) leaf(p []byte, number int64, free *ranges) error {
	for i := range number {
		first, length := int64(binary.BigEndian.Uint32(p[8*i:])), int64(binary.BigEndian.Uint32(p[8*i+4:]))
		if first < a.next || first == 0 || length == 0 || first+length > a.blocks {
			return fmt.Errorf("free blocks %d to %d are out of order", first, first+length)
		}
		a.next = first + length
		a.sum += length
		free.add((a.start+first)*a.block, length*a.block)
	}
	return nil
}

const (
	logSector = 512
	logMagic  = 0xfeedbabe
	// perHeader is the number of bytes of a record that a header describes.
	perHeader = 32 << 10
	// unmountOp is the flag of the operation that ends a log.
	unmountOp = 0x20
	// mostLog is the largest log that mkfs.xfs makes.
	mostLog = 2 << 30
)

// errDirtyLog says that the free-space trees on the disk may be old.
var errDirtyLog = errors.New("the log has changes that are not in place yet, because the machine was not shut down " +
	"cleanly")

// logHead is what a scan of the log finds.
type logHead struct {
	// at is the sector of the last record's header, and record its bytes.
	at     int64
	record []byte
	lsn    uint64
	// cycles is the highest cycle of any sector.
	cycles uint32
}

// checkLog returns nil if the log's last record is the one that an unmount
// writes. It reads the whole log: every sector begins with the number of the
// cycle that wrote it, or is a record's header. So it needs no guess about which
// record is the last one. The kernel does the same in xlog_check_unmount_rec.
func (f *xfs) checkLog() error {
	ag, within := f.logStart>>f.agLog, f.logStart&(1<<f.agLog-1)
	start, length := (ag*f.agBlocks+within)*f.block, f.logBlocks*f.block
	if f.logStart < 0 || ag >= f.ags || within >= f.agBlocks || length < 10*logSector || length > mostLog ||
		start+length > f.blocks*f.block {
		return fmt.Errorf("a log of %d blocks in block %d", f.logBlocks, f.logStart)
	}
	head, err := f.lastRecord(start, length)
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	if head.record == nil {
		return errors.New("the log has no record")
	}
	be := binary.BigEndian
	version, bytesIn, ops := be.Uint32(head.record[8:]), int64(be.Uint32(head.record[12:])), be.Uint32(head.record[40:])
	headers := int64(1)
	if size := int64(be.Uint32(head.record[320:])); version&2 != 0 && size > perHeader {
		headers = (size + perHeader - 1) / perHeader
	}
	sectors := length / logSector
	if bytesIn <= 0 || bytesIn > length/2 || headers > 64 || !bytes.Equal(head.record[304:320], f.uuid) {
		return errors.New("the last record of the log is damaged")
	}
	after := (head.at + headers + (bytesIn+logSector-1)/logSector) % sectors
	operation, err := bytesAt(f.r, start+(head.at+headers)%sectors*logSector, logSector)
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	next, err := bytesAt(f.r, start+after*logSector, logSector)
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	cycle := uint32(head.lsn >> 32)
	if ops != 1 || operation[9]&unmountOp == 0 || head.cycles != cycle || cycleOf(next) >= cycle {
		return errDirtyLog
	}
	return nil
}

// lastRecord finds the header with the highest sequence number.
func (f *xfs) lastRecord(start, length int64) (logHead, error) {
	head := logHead{}
	for off := int64(0); off < length; off += 1 << 20 {
		p, err := bytesAt(f.r, start+off, int(min(1<<20, length-off)))
		if err != nil {
			return head, err
		}
		for i := 0; i+logSector <= len(p); i += logSector {
			sector := p[i : i+logSector]
			head.cycles = max(head.cycles, cycleOf(sector))
			if binary.BigEndian.Uint32(sector) != logMagic {
				continue
			}
			if lsn := binary.BigEndian.Uint64(sector[16:]); head.record == nil || lsn > head.lsn {
				head.at, head.lsn, head.record = (off+int64(i))/logSector, lsn, bytes.Clone(sector)
			}
		}
	}
	return head, nil
}

func cycleOf(sector []byte) uint32 {
	if first := binary.BigEndian.Uint32(sector); first != logMagic {
		return first
	}
	return binary.BigEndian.Uint32(sector[4:])
}
