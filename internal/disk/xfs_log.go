package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

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
var errDirtyLog = errors.New("the log has changes that are not in place yet, because the machine was not shut down cleanly")

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
	if f.logStart < 0 || ag >= f.ags || within >= f.agBlocks || length < 10*logSector || length > mostLog || start+length > f.blocks*f.block {
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

// cycleOf is the cycle that wrote a sector of the log.
func cycleOf(sector []byte) uint32 {
	if first := binary.BigEndian.Uint32(sector); first != logMagic {
		return first
	}
	return binary.BigEndian.Uint32(sector[4:])
}
