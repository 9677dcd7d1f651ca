package host

import (
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

// info is the fs.FileInfo of an fstatat result. Sys returns the *unix.Stat_t.
type info struct {
	name string
	st   unix.Stat_t
}

func statat(dir int, name string) (*info, error) {
	i := &info{name: name}
	if err := unix.Fstatat(dir, name, &i.st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, err
	}
	return i, nil
}

func (i *info) Name() string       { return i.name }
func (i *info) Size() int64        { return i.st.Size }
func (i *info) IsDir() bool        { return i.Mode().IsDir() }
func (i *info) ModTime() time.Time { return time.Unix(i.st.Mtim.Sec, i.st.Mtim.Nsec) }
func (i *info) Sys() any           { return &i.st }

// length is the number of bytes of a regular file, and of one with holes what it takes on the
// disk: an empty lastlog can be 292 GB long. Links and folders count as 0.
func (i *info) length() int64 {
	if i.st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0
	}
	// Some file systems give small files no blocks.
	if taken := i.st.Blocks * 512; taken < i.st.Size && i.st.Size > 1<<20 {
		return taken
	}
	return i.st.Size
}

func (i *info) Mode() fs.FileMode {
	mode := fs.FileMode(i.st.Mode & 0o777)
	for bit, m := range map[uint32]fs.FileMode{
		unix.S_ISUID: fs.ModeSetuid, unix.S_ISGID: fs.ModeSetgid, unix.S_ISVTX: fs.ModeSticky,
	} {
		if i.st.Mode&bit != 0 {
			mode |= m
		}
	}
	switch i.st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	case unix.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		mode |= fs.ModeDevice
	}
	return mode
}

// ChangeTime is when content or attributes of an entry of Walk or Lstat changed
// last, by the kernel's clock. No program can set this time.
func ChangeTime(st fs.FileInfo) time.Time {
	if s, ok := st.Sys().(*unix.Stat_t); ok {
		return time.Unix(s.Ctim.Sec, s.Ctim.Nsec)
	}
	return st.ModTime()
}

// modeBits converts a file mode to the kernel's form.
func modeBits(m fs.FileMode) uint32 {
	bits := uint32(m.Perm())
	if m&fs.ModeSetuid != 0 {
		bits |= unix.S_ISUID
	}
	if m&fs.ModeSetgid != 0 {
		bits |= unix.S_ISGID
	}
	if m&fs.ModeSticky != 0 {
		bits |= unix.S_ISVTX
	}
	return bits
}
