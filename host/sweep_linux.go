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
	// readAtOnce is how many names of a directory are read at once.
	readAtOnce = 1024
	// rescans is how often a directory is read again while another process adds files.
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
	deep, err := temporaryName("deep")
	if err = errors.Join(err, unix.Fstatfs(fd, &fileSystem)); err != nil {
		return Removal{}, err
	}
	s := &sweeper{top: top, deep: deep, moved: map[string]string{}}
	if int64(fileSystem.Type) == unix.EXT4_SUPER_MAGIC {
		s.helpers = make(chan struct{}, ext4Helpers)
	}
	if contentsOnly {
		s.empty(top, 0)
	} else {
		s.removeOpen(p.dir, p.base, top, 0)
	}
	return s.gone, errors.Join(s.errs...)
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
	return s.removeOpen(dir, name, f, depth)
}

// removeOpen empties an open directory and removes it, again while another process
// writes into it. It says whether nothing is left.
func (s *sweeper) removeOpen(parent int, name string, f *os.File, depth int) bool {
	for range rescans {
		if !s.empty(f, depth) {
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

// empty reads a directory to its end and removes the entries, in the top directory also
// what was moved into it. Free helpers take directories. It says whether nothing is left.
func (s *sweeper) empty(f *os.File, depth int) bool {
	var stays atomic.Bool
	keep := func(gone bool) {
		if !gone {
			stays.Store(true)
		}
	}
	var below sync.WaitGroup
	for more := true; more; {
		names, err := f.Readdirnames(readAtOnce)
		var gone Removal
		for _, name := range names {
			if f == s.top && strings.HasPrefix(name, s.deep) {
				continue
			}
			full := f.Name() + "/" + name
			st, err := statat(int(f.Fd()), name)
			if err == nil && st.IsDir() {
				err = unix.EISDIR
			} else if err == nil {
				err = unix.Unlinkat(int(f.Fd()), name, 0)
			}
			switch err {
			case nil:
				gone.Add(Removal{Entries: 1, Bytes: st.length()})
			case unix.ENOENT:
			case unix.EISDIR:
				select {
				case s.helpers <- struct{}{}:
					below.Go(func() {
						defer func() { <-s.helpers }()
						keep(s.remove(f, name, full, depth+1))
					})
				default:
					keep(s.remove(f, name, full, depth+1))
				}
			default:
				keep(s.fail(full, err))
			}
		}
		s.count(gone)
		more = len(names) == readAtOnce // fewer names are the last
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, fs.ErrNotExist) {
			keep(s.fail(f.Name(), errors.Unwrap(err)))
		}
	}
	below.Wait()
	for f == s.top && len(s.moved) > 0 {
		for name, path := range s.moved {
			delete(s.moved, name)
			keep(s.remove(s.top, name, path, 1))
		}
	}
	return !stays.Load()
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
