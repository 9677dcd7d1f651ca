package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"unsafe"

	"github.com/spf13/afero"
	"golang.org/x/sys/unix"
)

// FITRIM is the request of fstrim(8): _IOWR('X', 121, struct fstrim_range),
// linux/fs.h.
const fitrim = 0xC0185879

// Trim discards the free space of the file system that the directory name is on, so
// that removed files cannot be read from the disk any more. It returns the number
// of bytes discarded. errors.ErrUnsupported means that the disk does not support
// discard.
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
	// Blocks freed by a transaction that is still in memory are not free yet.
	if err := unix.Syncfs(int(fd.Fd())); err != nil {
		return 0, fmt.Errorf("discarding free space: %w", err)
	}
	r := struct{ start, length, least uint64 }{length: math.MaxUint64}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd.Fd(), fitrim, uintptr(unsafe.Pointer(&r)))
	switch errno {
	case 0:
		return int64(r.length), nil
	case unix.EOPNOTSUPP, unix.ENOTTY, unix.EINVAL, unix.ENOSYS:
		return 0, fmt.Errorf("discarding free space: %w", errors.ErrUnsupported)
	default:
		return 0, fmt.Errorf("discarding free space: %w", errno)
	}
}

// ZeroFreeSpace fills the free space of the file system that the directory name is
// on with zeros. It writes a file and removes it in every case. It returns the
// number of bytes written. On cloud disks the next snapshot then copies the whole
// disk; prefer Trim where it works.
func (h *Host) ZeroFreeSpace(ctx context.Context, name string, progress func(done, total int64)) (
	written int64, err error,
) {
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
	total := int64(space.FreeBytes)
	most, err := keepUncompressed(out.(*file))
	if err != nil {
		return 0, err
	}
	if err := unix.Syncfs(int(out.(*file).Fd())); err != nil { // frees the blocks of files that were removed just now
		return 0, err
	}
	give, err := takeReserve(out.(*file))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, give()) }()
	written, err = fillWithZeros(ctx, out, most, func(written int64) { progress(written, max(total, written)) })
	// The blocks that hold the file's metadata were free blocks too. They reach the
	// disk only now, and never after the file is removed.
	unix.Sync()
	return written, err
}

// fillWithZeros writes zeros until the file system is full. Space that the file
// system reserved for blocks without a place becomes free once the blocks have one,
// so it tries again, at last block by block. most is the size of the file system: a
// file that grows beyond it is compressed.
func fillWithZeros(ctx context.Context, out afero.File, most int64, progress func(written int64)) (
	written int64, err error,
) {
	for _, size := range []int{4 << 20, 64 << 10, 4 << 10, 1 << 10} {
		zeros := make([]byte, size)
		for {
			if err := context.Cause(ctx); err != nil {
				return written, err
			}
			n, err := out.Write(zeros)
			written += int64(n)
			progress(written)
			if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
				break
			}
			if err != nil {
				return written, err
			}
			if n < len(zeros) {
				return written, io.ErrShortWrite
			}
			if written > most {
				return written, errors.New("the file system compresses zeros, so that they never fill it; " +
					"mount it without compression")
			}
		}
		if err := out.Sync(); err != nil {
			return written, err
		}
	}
	return written, nil
}

// keepUncompressed turns off compression for a file and returns the size of its
// file system. The flags are those of ioctl_iflags(2). btrfs with compress-force
// ignores the flag against compression but does not compress files that it
// overwrites in place.
func keepUncompressed(f *file) (size int64, err error) {
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

// takeReserve makes ext4's reserve, up to 4096 blocks, available to files: no write
// could reach these blocks otherwise. The returned function restores it. Other file
// systems have no such setting.
func takeReserve(f *file) (func() error, error) {
	nothing := func() error { return nil }
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
