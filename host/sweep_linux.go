package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A large removal spends its time in the kernel's unlink. Four threads in different
// directories are faster than one on ext4. XFS and btrfs serialise on their logs and
// get slower. File systems that were not measured get one thread.
const (
	ext4Helpers = 3
	// deepest is how many directories may be open above one another. Deeper
	// directories are moved up first. A process may have as few as 1024 files open.
	deepest = 64
	// rescans is how often a directory is read again because another process keeps
	// adding files.
	rescans = 50
	// namedFailures is how many failures are listed by name.
	namedFailures = 20
)

// sweeper removes one tree on one mount.
type sweeper struct {
	top *os.File
	// deep starts the names of directories that were too deep and moved into top.
	deep string
	// helpers has an element for each additional thread; nil allows none.
	helpers chan struct{}

	mu    sync.Mutex
	moved map[string]string // directories that were moved up, with the paths they had
	moves int
	gone  Removal
	errs  []error
}

// sweep empties the directory at p, and also removes it unless contentsOnly.
func sweep(p place, name string, contentsOnly bool) (Removal, error) {
	fd, err := openDir(p.dir, p.base)
	if err != nil {
		return Removal{}, err
	}
	top := os.NewFile(uintptr(fd), name)
	defer top.Close()
	var fileSystem unix.Statfs_t
	if err := unix.Fstatfs(fd, &fileSystem); err != nil {
		return Removal{}, err
	}
	deep, err := temporaryName("deep")
	if err != nil {
		return Removal{}, err
	}
	s := &sweeper{top: top, deep: deep, moved: map[string]string{}}
	if int64(fileSystem.Type) == unix.EXT4_SUPER_MAGIC {
		s.helpers = make(chan struct{}, ext4Helpers)
	}
	if contentsOnly {
		s.emptyTop()
	} else {
		s.removeOpen(p.dir, p.base, top, s.emptyTop)
	}
	return s.gone, errors.Join(s.errs...)
}

// emptyTop empties the top directory and then what was moved into it. It says
// whether nothing is left.
func (s *sweeper) emptyTop() bool {
	all := s.empty(s.top, s.top.Name(), 0)
	for len(s.moved) > 0 {
		moved := s.moved
		s.moved = map[string]string{}
		for name, path := range moved {
			all = s.remove(s.top, name, path, 1) && all
		}
	}
	return all
}

// remove removes a directory with its contents. It says whether nothing is left.
func (s *sweeper) remove(parent *os.File, name, path string, depth int) bool {
	dir := int(parent.Fd())
	if depth > deepest && s.moveUp(dir, name, path) {
		return true
	}
	fd, err := openSame(dir, name, path)
	if err != nil {
		return err == unix.ENOENT || s.fail(path, err) // another process has removed it
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	return s.removeOpen(dir, name, f, func() bool { return s.empty(f, path, depth) })
}

// removeOpen empties an open directory and removes it, again while another process
// writes into it. It says whether nothing is left.
func (s *sweeper) removeOpen(parent int, name string, f *os.File, empty func() bool) bool {
	for range rescans {
		if !empty() {
			return false
		}
		err := unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
		if err == unix.ENOTEMPTY {
			if _, err = f.Seek(0, io.SeekStart); err == nil {
				continue
			}
		}
		if err == nil {
			s.count(Removal{Entries: 1})
		}
		return err == nil || err == unix.ENOENT || s.fail(f.Name(), err)
	}
	return s.fail(f.Name(), errors.New("a process keeps writing into this directory; stop the process first"))
}

// moveUp moves a deep directory into the top directory, so that the directories
// between need not stay open. A directory that cannot be moved is emptied at its
// place.
func (s *sweeper) moveUp(dir int, name, path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moves++
	to := fmt.Sprint(s.deep, "-", s.moves)
	if unix.Renameat2(dir, name, int(s.top.Fd()), to, unix.RENAME_NOREPLACE) != nil {
		return false
	}
	s.moved[to] = path
	return true
}

// empty reads a directory to its end and removes the entries. Free helpers take
// directories in it. It says whether nothing is left.
func (s *sweeper) empty(f *os.File, path string, depth int) bool {
	var stays atomic.Bool
	var below sync.WaitGroup
	defer below.Wait()
	for {
		names, err := f.Readdirnames(1024)
		var gone Removal
		for _, name := range names {
			if f == s.top && strings.HasPrefix(name, s.deep) {
				continue
			}
			full := path + "/" + name
			size, err := unlink(int(f.Fd()), name)
			switch err {
			case nil:
				gone.Add(Removal{Entries: 1, Bytes: size})
			case unix.ENOENT:
			case unix.EISDIR:
				remove := func() {
					if !s.remove(f, name, full, depth+1) {
						stays.Store(true)
					}
				}
				select {
				case s.helpers <- struct{}{}:
					below.Go(func() {
						defer func() { <-s.helpers }()
						remove()
					})
				default:
					remove()
				}
			default:
				stays.Store(true)
				s.fail(full, err)
			}
		}
		s.count(gone)
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, fs.ErrNotExist) {
			stays.Store(true)
			s.fail(path, errors.Unwrap(err))
		}
		below.Wait()
		return !stays.Load()
	}
}

// unlink removes an entry and returns its size. The error for a directory is EISDIR.
func unlink(dir int, name string) (int64, error) {
	st, err := statat(dir, name)
	if err != nil {
		return 0, err
	}
	if st.IsDir() {
		return 0, unix.EISDIR
	}
	return st.length(), unix.Unlinkat(dir, name, 0)
}

func (s *sweeper) count(removed Removal) {
	s.mu.Lock()
	s.gone.Add(removed)
	s.mu.Unlock()
}

// fail keeps a failure and returns false. Failures after the first twenty are only
// counted.
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

// shortened cuts a path that is longer than PATH_MAX, for messages.
func shortened(name string) string {
	const most, end = unix.PathMax, 256
	if len(name) <= most {
		return name
	}
	return name[:most-end] + "…" + name[len(name)-end:]
}
