package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Requests of linux/fs.h, linux/ext4.h and xfs_fs.h.
const (
	fitrim         = 0xC0185879 // FITRIM of fstrim(8): _IOWR('X', 121, struct fstrim_range)
	checkpoint     = 0x4004662B // EXT4_IOC_CHECKPOINT: _IOW('f', 43, __u32)
	discardJournal = 1          // EXT4_IOC_CHECKPOINT_FLAG_DISCARD
	zeroJournal    = 2          // EXT4_IOC_CHECKPOINT_FLAG_ZEROOUT
	xfsGeometry    = 0x80705864 // XFS_IOC_FSGEOMETRY_V1: _IOR('X', 100, struct xfs_fsop_geom_v1)
	xfsFree        = 0x8080583A // XFS_IOC_FREE_EOFBLOCKS: _IOR('X', 58, struct xfs_fs_eofblocks)
	xfsReserve     = 0x80105873 // XFS_IOC_GET_RESBLKS: _IOR('X', 115, struct xfs_fsop_resblks)
	xfsSetReserve  = 0xC0105872 // XFS_IOC_SET_RESBLKS: _IOWR('X', 114, struct xfs_fsop_resblks)
)

// Trim discards the free space of the file system that the directory name is on, so that
// removed files cannot be read from the disk any more, and ext4's journal, which has their
// names. It returns the number of bytes discarded without the journal.
// errors.ErrUnsupported means that the disk does not support discard.
func (h *Host) Trim(name string) (int64, error) {
	dir, err := h.Files.Open(name)
	if err != nil {
		return 0, fmt.Errorf("discarding free space: %w", err)
	}
	defer dir.Close()
	fd, ok := dir.(*file)
	if !ok {
		return 0, fmt.Errorf("discarding free space: %w", errors.ErrUnsupported)
	}
	if err := settle(fd.File); err != nil {
		return 0, fmt.Errorf("discarding free space: %w", err)
	}
	var xfs struct {
		block, _, group, _, _, _, _, _ uint32 // the size of a block in bytes, and of a group in blocks
		blocks                         uint64
		_                              [9]uint64
	}
	piece, end := uint64(math.MaxUint64), uint64(0)
	if ask(fd.File, xfsGeometry, unsafe.Pointer(&xfs)) == nil {
		// Of a whole allocation group, XFS of Linux 6.18 discards the 100 largest extents.
		piece, end = uint64(xfs.group/2)*uint64(xfs.block), xfs.blocks*uint64(xfs.block)
	}
	var discarded uint64
	for start := uint64(0); start == 0 || start < end; start += piece {
		r := struct{ start, length, least uint64 }{start: start, length: piece}
		switch err := ask(fd.File, fitrim, unsafe.Pointer(&r)); err {
		case nil:
			discarded += r.length
		case unix.EOPNOTSUPP, unix.ENOTTY, unix.EINVAL, unix.ENOSYS:
			return 0, fmt.Errorf("discarding free space: %w", errors.ErrUnsupported)
		default:
			return 0, fmt.Errorf("discarding free space: %w", err)
		}
	}
	_ = emptyJournal(fd.File, discardJournal)
	return int64(discarded), nil
}

// ask makes a request of a file system.
func ask(f *os.File, request uintptr, argument unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, uintptr(argument)); errno != 0 {
		return errno
	}
	return nil
}

// settle frees the blocks of files that were removed just now. A transaction in memory may hold
// them. XFS gives them back in the background (Linux 5.14 and newer), and keeps free blocks
// behind the ends of files that may grow.
func settle(f *os.File) error {
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return err
	}
	now := struct {
		version, flags uint32
		_              [15]uint64
	}{version: 1, flags: 1} // XFS_EOFBLOCKS_VERSION, XFS_EOF_FLAGS_SYNC
	if none := ask(f, xfsFree, unsafe.Pointer(&now)); none != nil { // not XFS
		return nil
	}
	return unix.Syncfs(int(f.Fd()))
}

// ZeroFreeSpace fills the free space of the file system that the directory name is
// on with zeros. It writes a file and removes it in every case. It returns the
// number of bytes written. On cloud disks the next snapshot then copies the whole
// disk; prefer Trim where it works.
func (h *Host) ZeroFreeSpace(ctx context.Context, name string, progress func(done, total int64)) (
	written int64, err error,
) {
	dir, err := h.Files.Open(name)
	if err != nil {
		return 0, fmt.Errorf("filling free space: %w", err)
	}
	defer dir.Close()
	give, err := takeReserve(dir.(*file).File)
	if err != nil {
		return 0, fmt.Errorf("filling free space: %w", err)
	}
	defer func() { err = errors.Join(err, give()) }() // after the zeros have gone
	temp := path.Join(name, ".eksnode-zeros")
	out, err := h.Files.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) { // left by a killed run
		if err = h.Files.Remove(temp); err == nil {
			out, err = h.Files.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("filling free space: %w", err)
	}
	defer func() {
		if err = errors.Join(err, out.Close(), h.Files.Remove(temp)); err != nil {
			err = fmt.Errorf("filling free space: %w", err)
		}
	}()
	space, err := h.Files.Space(name)
	if err != nil {
		return 0, err
	}
	f := out.(*file).File
	z := zeros{total: int64(space.FreeBytes), progress: progress}
	if z.most, err = keepUncompressed(f); err != nil {
		return 0, err
	}
	if err := settle(f); err != nil {
		return 0, err
	}
	if z.page, err = unix.Mmap(-1, 0, 4<<20, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
		return 0, err
	}
	defer unix.Munmap(z.page)
	more, err := z.fill(ctx, f)
	for more && err == nil {
		// The last blocks can be too few for the metadata of a large file. A new one needs none.
		fd, none := unix.Openat(int(dir.(*file).Fd()), ".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		if none != nil { // no inode is left, or the file system knows no files without a name
			break
		}
		f = os.NewFile(uintptr(fd), temp)
		defer f.Close() // its zeros keep their blocks until the end
		more, err = z.fill(ctx, f)
	}
	// The blocks that hold the files' metadata were free blocks too. They reach the
	// disk only now, and never after the files are removed.
	unix.Sync()
	if none := emptyJournal(f, zeroJournal); none != nil { // Linux before 5.14, or another file system
		unix.Sync() // a commit of another program can hide a block from the first
	}
	return z.written, err
}

// emptyJournal writes what ext4's journal has to its places, and wipes the journal.
func emptyJournal(f *os.File, how int) error {
	return unix.IoctlSetPointerInt(int(f.Fd()), checkpoint, how)
}

// zeros are the zeros of a full file system.
type zeros struct {
	// most is the size of the file system: zeros beyond it are compressed.
	written, total, most int64
	progress             func(done, total int64)
	// page is the zeros of a write: a mapping, because direct writes need an aligned address.
	page []byte
}

// fill writes zeros to a file until the file system is full. Space that the file system
// reserved for blocks without a place becomes free once the blocks have one, so it tries
// again, at last block by block. The file system was full before if the file has no more
// than its name.
//
// It writes without the page cache where the file system can: ext4 gives a page its blocks
// only when it is written back, and a full file system then keeps what was in the blocks.
func (z *zeros) fill(ctx context.Context, out *os.File) (more bool, err error) {
	direct := setDirect(out, unix.O_DIRECT) == nil
	for _, size := range []int{4 << 20, 64 << 10, 4 << 10, 1 << 10} {
		for {
			if err := context.Cause(ctx); err != nil {
				return false, err
			}
			n, err := out.Write(z.page[:size])
			z.written += int64(n)
			z.progress(z.written, max(z.total, z.written))
			if direct && errors.Is(err, unix.EINVAL) { // not with this file system or this size
				direct = false
				err = setDirect(out, 0)
			} else if isFull(err) {
				break
			}
			if err != nil {
				return false, err
			}
			if z.written > z.most {
				return false, errors.New("the file system compresses zeros, so that they never fill it; " +
					"mount it without compression")
			}
		}
		if err := out.Sync(); err != nil && !isFull(err) {
			return false, err
		}
	}
	var st unix.Stat_t
	err = unix.Fstat(int(out.Fd()), &st)
	return st.Blocks > 0, err
}

// setDirect makes a file that was opened for writing one with the flag, O_DIRECT or none.
func setDirect(f *os.File, flag int) error {
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETFL, flag)
	return err
}

func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// keepUncompressed turns off compression for a file and returns the size of its
// file system. The flags are those of ioctl_iflags(2). btrfs with compress-force
// ignores the flag against compression but does not compress files that it
// overwrites in place.
func keepUncompressed(f *os.File) (size int64, err error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return 0, err
	}
	const noCompression, noCopyOnWrite = 0x400, 0x800000 // FS_NOCOMP_FL, FS_NOCOW_FL of linux/fs.h
	flag := noCompression
	if st.Type == unix.BTRFS_SUPER_MAGIC {
		flag = noCopyOnWrite
	}
	if flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS); err == nil {
		// A file system without the flag does not compress, or accepts more than
		// its size.
		_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags|flag)
	}
	return int64(st.Blocks) * st.Bsize, nil
}

// takeReserve makes the reserve of ext4 (up to 4096 blocks) or XFS (up to 8192) available to
// files: no write could reach these blocks otherwise. The returned function restores it. Other
// file systems have no such setting.
func takeReserve(f *os.File) (func() error, error) {
	nothing := func() error { return nil }
	var xfs struct{ blocks, available uint64 }
	if ask(f, xfsReserve, unsafe.Pointer(&xfs)) == nil {
		before := xfs
		xfs.blocks = 0
		if err := ask(f, xfsSetReserve, unsafe.Pointer(&xfs)); err != nil {
			return nothing, err
		}
		return func() error { return ask(f, xfsSetReserve, unsafe.Pointer(&before)) }, nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nothing, err
	}
	device, err := filepath.EvalSymlinks(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err != nil {
		return nothing, nil
	}
	setting := filepath.Join("/sys/fs/ext4", filepath.Base(device), "reserved_clusters")
	before, err := os.ReadFile(setting)
	if err != nil || os.WriteFile(setting, []byte("0"), 0) != nil { // read-only in containers
		return nothing, nil
	}
	return func() error { return os.WriteFile(setting, before, 0) }, nil
}
