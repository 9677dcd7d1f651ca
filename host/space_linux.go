package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Space returns how much can be written at name. A missing path has the space of
// its nearest existing parent.
func (f *Files) Space(name string) (Space, error) {
	for name = path.Clean("/" + name); ; name = path.Dir(name) {
		real, err := f.realPath(name)
		if errors.Is(err, fs.ErrNotExist) && name != "/" {
			continue
		}
		if err != nil {
			return Space{}, err
		}
		var st unix.Statfs_t
		if err := unix.Statfs(real, &st); err != nil {
			return Space{}, &fs.PathError{Op: "statfs", Path: name, Err: err}
		}
		return Space{
			FreeBytes: st.Bfree * uint64(st.Bsize), AvailableBytes: st.Bavail * uint64(st.Bsize),
			BlockBytes: uint64(st.Bsize), DiscardBytes: discardGranularity(real),
			ReadOnly: st.Flags&unix.ST_RDONLY != 0, NoInodes: st.Files > 0 && st.Ffree == 0,
		}, nil
	}
}

// discardGranularity reads sysfs for the disk that a folder of this machine lies
// on, in bytes. A partition's disk is the folder above the partition's.
func discardGranularity(real string) uint64 {
	var st unix.Stat_t
	if unix.Stat(real, &st) != nil {
		return 0
	}
	device := fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	for _, queue := range []string{"/queue", "/../queue"} {
		text, err := os.ReadFile(device + queue + "/discard_granularity")
		if err != nil {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
		if err == nil {
			return n
		}
	}
	return 0
}
