package disk

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// openForReading opens a file. A block device that is mounted or part of another
// device is an error: its content may change.
func openForReading(path string, device bool) (*os.File, error) {
	flags := os.O_RDONLY | unix.O_NONBLOCK
	if device {
		flags |= unix.O_EXCL
	}
	file, err := os.OpenFile(path, flags, 0)
	if device && errors.Is(err, unix.EBUSY) {
		return nil, fmt.Errorf("the device is in use, mounted or part of another device (see lsblk %s); unmount it "+
			"first", quoted(path))
	}
	return file, err
}

const (
	// lockedByte is the first byte that qemu locks for what it does with an
	// image, and writes is the bit for writing: qemu's file-posix.c and
	// docs/devel/block-locking.
	lockedByte = 100
	writes     = 1
)

// unused returns an error if another process has the file open for writing.
func unused(file *os.File) error {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: lockedByte + writes, Len: 1}
	if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_GETLK, &lock); err == nil && lock.Type != unix.F_UNLCK {
		return errors.New("in use: qemu has the image open for writing; shut the machine down first")
	}
	// The kernel refuses a lease for reading as long as any process can write.
	// Other errors say that the file system or the user cannot have leases.
	_, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	if errors.Is(err, unix.EAGAIN) {
		return fmt.Errorf("in use: another process has the file open for writing (see fuser -v %s); wait until it "+
			"ends", quoted(file.Name()))
	}
	if err == nil {
		_, err = unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
		return err
	}
	return nil
}

// Written lists the parts of a file that are not holes. All of the file, if the
// file system cannot say.
func Written(file *os.File, size int64) []Range {
	var data extents
	for off := int64(0); off < size; {
		start, err := unix.Seek(int(file.Fd()), off, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) || err == nil && start >= size {
			break
		}
		if err != nil {
			return []Range{{0, size}}
		}
		end, err := unix.Seek(int(file.Fd()), start, unix.SEEK_HOLE)
		if err != nil || end <= start {
			return []Range{{0, size}}
		}
		off = min(end, size)
		data.add(start, off-start)
	}
	return data.list
}
