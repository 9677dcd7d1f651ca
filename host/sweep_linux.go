package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// helpersOn has the additional threads for each file system that is faster with them. A
// large removal spends its time in the kernel's unlink. XFS and btrfs serialise on their
// logs and get slower. File systems that were not measured get one thread.
var helpersOn = map[int64]int{unix.EXT4_SUPER_MAGIC: 3}

const (
	// deepest is how many directories may be open above one another. Deeper
	// directories are moved up first. A process may have as few as 1024 files open.
	deepest       = 64
	rescans       = 50 // of a directory while another process adds files
	namedFailures = 20
)

// sweeper removes one tree on one mount.
type sweeper struct {
	top     int
	deep    string        // starts the names of directories that were too deep and moved into top
	helpers chan struct{} // has an element for each additional thread
	mu      sync.Mutex
	moved   map[string]string // directories that were moved up, with the paths they had
	moves   int
	gone    Removal
	errs    []error
}

// sweep empties the directory at p, and also removes it unless contentsOnly.
func sweep(p place, name string, contentsOnly bool) (Removal, error) {
	fd, err := openDir(p.dir, p.base)
	if err != nil {
		return Removal{}, err
	}
	defer unix.Close(fd)
	var fileSystem unix.Statfs_t
	deep, err := temporaryName("deep")
	if err = errors.Join(err, unix.Fstatfs(fd, &fileSystem)); err != nil {
		return Removal{}, err
	}
	helpers := make(chan struct{}, helpersOn[int64(fileSystem.Type)])
	s := &sweeper{top: fd, deep: deep, helpers: helpers, moved: map[string]string{}}
	if !contentsOnly {
		s.removeOpen(p.dir, p.base, fd, name, 0)
	}
	for last := !contentsOnly; !last; {
		_, last = s.empty(fd, name, 0)
	}
	return s.gone, errors.Join(s.errs...)
}

// remove removes a directory with its contents. It says whether nothing is left.
func (s *sweeper) remove(dir int, name, path string, depth int) bool {
	if depth > deepest && s.moveUp(dir, name, path) {
		return true
	}
	fd, err := openSame(dir, name, path)
	if err != nil {
		return err == unix.ENOENT || s.fail(path, err) // another process has removed it
	}
	defer unix.Close(fd)
	return s.removeOpen(dir, name, fd, path, depth)
}

// removeOpen empties an open directory and removes it, again while another process
// writes into it. It says whether nothing is left. To try the removal after each part
// costs less than to ask whether the part was the last.
func (s *sweeper) removeOpen(parent int, name string, fd int, path string, depth int) bool {
	emptied := true
	for scans := 0; scans < rescans; {
		gone, last := s.empty(fd, path, depth)
		if emptied = emptied && gone; emptied {
			err := unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
			if err == nil {
				s.count(Removal{Entries: 1})
			}
			if err != unix.ENOTEMPTY {
				return err == nil || err == unix.ENOENT || s.fail(path, err)
			}
		} else if last {
			return false
		}
		if last {
			scans++
			_, _ = unix.Seek(fd, 0, unix.SEEK_SET)
		}
	}
	return s.fail(path, errors.New("a process keeps writing into this directory; stop the process first"))
}

// moveUp moves a deep directory into the top directory, so that those between need not
// stay open. A directory that cannot be moved is emptied at its place.
func (s *sweeper) moveUp(dir int, name, path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moves++
	to := fmt.Sprint(s.deep, "-", s.moves)
	if unix.Renameat2(dir, name, s.top, to, unix.RENAME_NOREPLACE) != nil {
		return false
	}
	s.moved[to] = path
	return true
}

// empty reads the next part of a directory and removes its entries, after the last part
// of the top directory also what was moved into it. Free helpers take directories. It
// says whether nothing of the part is left, and whether it was the last.
func (s *sweeper) empty(fd int, path string, depth int) (gone, last bool) {
	var buf [8 << 10]byte
	var stays atomic.Bool
	var below sync.WaitGroup
	remove := func(dir int, name, path string, depth int) {
		if !s.remove(dir, name, path, depth) {
			stays.Store(true)
		}
	}
	n, err := unix.Getdents(fd, buf[:])
	if err != nil && err != unix.ENOENT && err != unix.EINTR {
		stays.Store(!s.fail(path, err))
	}
	// struct linux_dirent64: inode 8, offset 8, length 2, kind 1, name
	for rest := buf[:max(n, 0)]; len(rest) > 0; rest = rest[binary.NativeEndian.Uint16(rest[16:]):] {
		kind, name := rest[18], unix.ByteSliceToString(rest[19:])
		if name == "." || name == ".." || fd == s.top && strings.HasPrefix(name, s.deep) {
			continue
		}
		full, err := path+"/"+name, error(unix.EISDIR)
		if kind != unix.DT_DIR { // some file systems say no kinds
			err = s.unlink(fd, name)
		}
		switch err {
		case nil, unix.ENOENT:
		case unix.EISDIR:
			select {
			case s.helpers <- struct{}{}:
				below.Go(func() {
					defer func() { <-s.helpers }()
					remove(fd, name, full, depth+1)
				})
			default:
				remove(fd, name, full, depth+1)
			}
		default:
			stays.Store(!s.fail(full, err))
		}
	}
	below.Wait()
	last = n <= 0 && err != unix.EINTR
	for last && fd == s.top && len(s.moved) > 0 {
		for name, path := range s.moved {
			delete(s.moved, name)
			remove(fd, name, path, 1)
		}
	}
	return !stays.Load(), last
}

// unlink removes what is no directory.
func (s *sweeper) unlink(dir int, name string) error {
	st, err := statat(dir, name)
	if err == nil {
		err = unix.Unlinkat(dir, name, 0)
	}
	if err == nil {
		s.count(Removal{Entries: 1, Bytes: st.length()})
	}
	return err
}

func (s *sweeper) count(removed Removal) {
	s.mu.Lock()
	s.gone.Add(removed)
	s.mu.Unlock()
}

// fail keeps a failure, or only notes that there are more than twenty. It returns false.
func (s *sweeper) fail(path string, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.As(err, new(*MountedError)):
		s.errs = append(s.errs, err)
	case len(s.errs) < namedFailures:
		s.errs = append(s.errs, &fs.PathError{Op: "remove", Path: shortened(path), Err: explain(err)})
	case len(s.errs) == namedFailures:
		s.errs = append(s.errs, errors.New("removing: and more"))
	}
	return false
}
