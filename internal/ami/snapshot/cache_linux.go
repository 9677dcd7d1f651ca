package snapshot

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// freeSpace is the number of bytes that a file in a folder can still get.
func freeSpace(folder string) (bytes int64, known bool) {
	var fs unix.Statfs_t
	if err := unix.Statfs(filepath.Clean(folder), &fs); err != nil {
		return 0, false
	}
	return int64(fs.Bavail) * fs.Bsize, true
}

// giveOwner gives a path the owner of another one, if this process may do so.
func giveOwner(path, of string) error {
	var st unix.Stat_t
	if err := unix.Stat(of, &st); err != nil || os.Geteuid() != 0 {
		return err
	}
	return os.Lchown(path, int(st.Uid), int(st.Gid))
}

// nextData is where a sparse file has the next data from a place on, or io.EOF.
func nextData(f *os.File, from int64) (int64, error) {
	at, err := unix.Seek(int(f.Fd()), from, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return 0, io.EOF
	}
	return at, err
}
