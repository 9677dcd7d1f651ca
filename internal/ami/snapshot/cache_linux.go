package snapshot

import (
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
