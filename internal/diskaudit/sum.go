//go:build linux

package diskaudit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// sums are the sums of files with several hard links, so that each is read once.
type sums map[inode][sha256.Size]byte

type inode struct{ device, number uint64 }

func (s sums) of(ctx context.Context, e host.Entry, st *unix.Stat_t) ([sha256.Size]byte, error) {
	key := inode{uint64(st.Dev), st.Ino}
	if sum, known := s[key]; known && st.Nlink > 1 {
		return sum, nil
	}
	f, err := e.Open()
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	defer f.Close()
	var sum [sha256.Size]byte
	if st.Size > PlainMost {
		sum, err = sparseSum(ctx, f, st.Size)
	} else {
		all := sha256.New()
		_, err = io.Copy(all, until{ctx, f})
		all.Sum(sum[:0])
	}
	if err == nil && st.Nlink > 1 {
		s[key] = sum
	}
	return sum, err
}

// until is a reader that ends with a context.
type until struct {
	ctx context.Context
	in  io.Reader
}

// Read implements io.Reader.
func (u until) Read(p []byte) (int, error) {
	if err := context.Cause(u.ctx); err != nil {
		return 0, err
	}
	return u.in.Read(p)
}

// part is the size of the parts of a large file.
const part = 64 << 10

// sparseSum is the SHA-256 of the parts of a file that are not zeros, with their
// places. Holes are not read, and count as the zeros that they are.
func sparseSum(ctx context.Context, f *os.File, size int64) (sum [sha256.Size]byte, err error) {
	all, data, zeros := sha256.New(), make([]byte, part), make([]byte, part)
	for at := int64(0); at < size; {
		start, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // the rest is a hole
			break
		}
		if err != nil {
			return sum, &os.PathError{Op: "seek", Path: f.Name(), Err: err}
		}
		end, err := unix.Seek(int(f.Fd()), start, unix.SEEK_HOLE)
		if err != nil {
			return sum, &os.PathError{Op: "seek", Path: f.Name(), Err: err}
		}
		for at = max(at, start/part*part); at < end; at += part {
			if err := context.Cause(ctx); err != nil {
				return sum, err
			}
			n, err := f.ReadAt(data, at)
			if err != nil && !errors.Is(err, io.EOF) {
				return sum, err
			}
			if !bytes.Equal(data[:n], zeros[:n]) {
				all.Write(binary.BigEndian.AppendUint64(nil, uint64(at)))
				all.Write(data[:n])
			}
		}
	}
	all.Sum(sum[:0])
	return sum, nil
}
