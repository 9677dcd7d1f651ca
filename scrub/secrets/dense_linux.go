package secrets

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// dense reads a file without its holes: a sparse file may have more zeros than
// a search can read.
func dense(in *os.File, size int64) io.Reader {
	var st unix.Stat_t
	if err := unix.Fstat(int(in.Fd()), &st); err != nil || st.Blocks*512 >= size {
		return in
	}
	return &extents{in: in}
}

// extents reads the parts of a file that have data.
type extents struct {
	in   *os.File
	left int64
}

func (e *extents) Read(p []byte) (int, error) {
	if e.left == 0 {
		at, err := e.in.Seek(0, io.SeekCurrent)
		if err != nil {
			return 0, err
		}
		begin, err := unix.Seek(int(e.in.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return 0, io.EOF
		}
		if err != nil {
			return 0, &os.PathError{Op: "seek", Path: e.in.Name(), Err: err}
		}
		end, err := unix.Seek(int(e.in.Fd()), begin, unix.SEEK_HOLE)
		if err == nil {
			_, err = e.in.Seek(begin, io.SeekStart)
		}
		if err != nil {
			return 0, err
		}
		e.left = end - begin
	}
	n, err := e.in.Read(p[:min(int64(len(p)), e.left)])
	e.left -= int64(n)
	return n, err
}
