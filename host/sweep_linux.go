package host

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A large removal spends its time in the kernel's unlink. Four threads in different
// directories take two thirds of one thread's time on ext4. XFS and btrfs serialise
// on their logs and get slower. File systems that were not measured get one thread.
const (
	ext4Workers = 4
	// crowd is how many directories may wait for a worker. Beyond it a worker
	// descends itself, so that memory does not grow with the tree.
	crowd = 256
	// deepest is how many directories may be open above one another. Deeper
	// directories are moved up first. A process may have as few as 1024 files open.
	deepest = 64
	// longest is the longest entry of getdents in bytes: 19, a name of 255 and its
	// NUL, rounded up.
	longest = 280
	// rescans is how often a directory is read again because another process keeps
	// adding files.
	rescans = 50
	// namedFailures is how many failures are listed by name.
	namedFailures = 20
)

// sweep empties the directory at p, and also removes it unless contentsOnly.
func sweep(p place, name string, contentsOnly bool) (Removal, error) {
	fd, err := openDir(p.dir, p.base)
	if err != nil {
		return Removal{}, err
	}
	defer unix.Close(fd)
	var fileSystem unix.Statfs_t
	if err := unix.Fstatfs(fd, &fileSystem); err != nil {
		return Removal{}, err
	}
	kind := int64(fileSystem.Type)
	s := newSweeper(fd, kind)
	top := &folder{fd: fd, path: name, keep: true, open: 1}
	workers := 1
	if kind == unix.EXT4_SUPER_MAGIC {
		workers = ext4Workers
	}
	s.run(top, workers)
	if !contentsOnly && !top.failed {
		s.removeTop(p, top)
	}
	return s.gone, errors.Join(s.errs...)
}

// sweeper removes one tree on one mount.
type sweeper struct {
	// mount is the mount of the top directory. Only kernels before 5.6 need it.
	mount func() (uint64, error)
	fills bool // getdents fills its buffer while entries are left
	// unlink is unlinkat or unlinkatAlone.
	unlink func(dir int, name []byte, flags int) unix.Errno
	top    *folder
	moved  atomic.Int64

	mu   sync.Mutex
	wake sync.Cond
	// todo is a stack: depth first, so that few directories are open at a time.
	todo []*folder
	left int // folders on the stack or being emptied
	gone Removal
	errs []error
}

func newSweeper(fd int, kind int64) *sweeper {
	s := &sweeper{unlink: unlinkat, mount: sync.OnceValues(func() (uint64, error) { return mountID(fd) }), fills: kind == unix.EXT4_SUPER_MAGIC || kind == unix.XFS_SUPER_MAGIC}
	s.wake.L = &s.mu
	return s
}

func (s *sweeper) run(top *folder, workers int) {
	s.top = top
	s.push(top, true)
	if workers == 1 { // another thread would only add waiting
		s.unlink = unlinkatAlone
		s.work()
		return
	}
	var done sync.WaitGroup
	for range workers {
		done.Go(s.work)
	}
	done.Wait()
}

func (s *sweeper) work() {
	buf := make([]byte, 32<<10)
	for f := s.pop(); f != nil; f = s.pop() {
		s.empty(f, buf)
		s.finish()
	}
}

// push puts a directory on the stack. When the stack is full, it does so only with
// must.
func (s *sweeper) push(f *folder, must bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.todo) >= crowd && !must {
		return false
	}
	s.todo = append(s.todo, f)
	s.left++
	s.wake.Signal()
	return true
}

// pop waits for a directory; nil means that the sweep is done.
func (s *sweeper) pop() *folder {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.todo) == 0 {
		if s.left == 0 {
			return nil
		}
		s.wake.Wait()
	}
	f := s.todo[len(s.todo)-1]
	s.todo = s.todo[:len(s.todo)-1]
	return f
}

// finish counts a directory from the stack as read.
func (s *sweeper) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left--; s.left == 0 {
		s.wake.Broadcast()
	}
}

// empty reads a directory to its end and unlinks the entries. Directories in it go
// to the other workers.
func (s *sweeper) empty(f *folder, buf []byte) {
	if f.depth > deepest && s.moveUp(f) {
		return
	}
	if f.parent != nil {
		switch err := s.enter(f); {
		case err == unix.ENOENT: // another process has removed it
			s.leave(f.parent, false)
			return
		case err != nil:
			s.fail(f, err)
			s.leave(f.parent, true)
			return
		}
	}
	var removed Removal
	for {
		n, err := unix.Getdents(f.fd, buf)
		if err != nil && err != unix.ENOENT {
			s.fail(f, err)
		}
		if n <= 0 {
			break
		}
		removed.Add(s.entries(f, buf[:n]))
		if s.fills && !f.keep && n < len(buf)-longest {
			break // that was the last entry; otherwise rmdir fails
		}
	}
	s.count(removed)
	s.leave(f, false)
}

// moveUp moves a deep directory into the top directory and queues it there, so that
// the directories between need not stay open. A directory that cannot be moved is
// emptied at its place.
func (s *sweeper) moveUp(f *folder) bool {
	name := append([]byte(fmt.Sprintf(".eksnode-deep-%d", s.moved.Add(1))), 0)
	if renameat(f.parent.fd, f.name, s.top.fd, name) != 0 {
		return false
	}
	up := &folder{parent: s.top, name: name, path: f.full(), depth: 1}
	s.top.mu.Lock()
	s.top.open++
	s.top.mu.Unlock()
	s.push(up, true)
	s.leave(f.parent, false)
	return true
}

// enter opens a directory and makes sure that it is on the same mount: by one
// openat2(2) or, on kernels before 5.6, by comparing mounts.
func (s *sweeper) enter(f *folder) error {
	fd, errno := openat2(f.parent.fd, f.name)
	if errno == unix.EXDEV {
		return &MountedError{Path: f.full()}
	}
	if errno == unix.ENOSYS || errno == unix.EPERM { // EPERM: in older containers
		return s.enterOld(f)
	}
	if errno != 0 {
		return errno
	}
	f.fd, f.open = fd, 1
	return nil
}

func (s *sweeper) enterOld(f *folder) error {
	fd, errno := openat(f.parent.fd, f.name)
	if errno != 0 {
		return errno
	}
	mount, err := mountID(fd)
	if err == nil {
		var own uint64
		if own, err = s.mount(); err == nil && own != mount {
			err = &MountedError{Path: f.full()}
		}
	}
	if err != nil {
		_ = unix.Close(fd)
		return err
	}
	f.fd, f.open = fd, 1
	return nil
}

func (s *sweeper) entries(f *folder, buf []byte) (removed Removal) {
	for len(buf) > 0 {
		// struct linux_dirent64: inode 8, offset 8, length 2, type 1, name
		length := binary.NativeEndian.Uint16(buf[16:18])
		kind, name := buf[18], buf[19:length]
		buf = buf[length:]
		if name[0] == '.' && (name[1] == 0 || name[1] == '.' && name[2] == 0) {
			continue
		}
		if kind != unix.DT_DIR {
			var bytes int64
			if kind == unix.DT_REG || kind == unix.DT_UNKNOWN {
				if st, err := statat(f.fd, unix.ByteSliceToString(name)); err == nil {
					bytes = st.length()
				}
			}
			errno := s.unlink(f.fd, name, 0)
			switch errno {
			case 0:
				removed.Add(Removal{Entries: 1, Bytes: bytes})
				continue
			case unix.ENOENT:
				continue
			case unix.EISDIR: // the file system returns no types
			default:
				s.fail(&folder{parent: f, name: name}, errno)
				f.mark()
				continue
			}
		}
		s.below(f, name)
	}
	return removed
}

// below hands a directory to another worker. When the stack is full, it descends
// itself.
func (s *sweeper) below(f *folder, name []byte) {
	end := bytes.IndexByte(name, 0)
	sub := &folder{parent: f, name: bytes.Clone(name[:end+1]), depth: f.depth + 1}
	f.mu.Lock()
	f.open++
	f.mu.Unlock()
	if !s.push(sub, false) {
		s.empty(sub, make([]byte, 4<<10))
	}
}

// leave counts a directory as read, or one below it as gone (with failed: as
// staying). The last call removes the directory.
func (s *sweeper) leave(f *folder, failed bool) {
	for f != nil {
		f.mu.Lock()
		f.open--
		f.failed = f.failed || failed
		last, failing := f.open == 0, f.failed
		f.mu.Unlock()
		if !last {
			return
		}
		if f.keep {
			return
		}
		_ = unix.Close(f.fd)
		if !failing {
			if errno := s.unlink(f.parent.fd, f.name, unix.AT_REMOVEDIR); errno == unix.ENOTEMPTY && s.again(f) {
				return
			} else if errno != 0 && errno != unix.ENOENT {
				s.fail(f, errno)
				failing = true
			} else if errno == 0 {
				s.count(Removal{Entries: 1})
			}
		}
		f, failed = f.parent, failing
	}
}

// again queues a directory once more because another process has written into it.
func (s *sweeper) again(f *folder) bool {
	if f.rescans++; f.rescans > rescans {
		return false
	}
	s.push(f, true)
	return true
}

// removeTop removes the directory at which the sweep started. It sweeps again when
// files have appeared meanwhile.
func (s *sweeper) removeTop(p place, top *folder) {
	base := append([]byte(p.base), 0)
	for range rescans {
		errno := unlinkat(p.dir, base, unix.AT_REMOVEDIR)
		switch errno {
		case 0:
			s.gone.Entries++
			return
		case unix.ENOENT:
			return
		case unix.ENOTEMPTY:
			if _, err := unix.Seek(top.fd, 0, unix.SEEK_SET); err != nil {
				s.fail(top, err)
				return
			}
			again := newSweeper(top.fd, 0)
			again.run(&folder{fd: top.fd, path: top.path, keep: true, open: 1}, 1)
			s.gone.Add(again.gone)
			s.errs = append(s.errs, again.errs...)
			if len(again.errs) > 0 {
				return
			}
		default:
			s.fail(top, explain(errno))
			return
		}
	}
	s.fail(top, errors.New("a process keeps writing into this directory; stop the process first"))
}

func (s *sweeper) count(removed Removal) {
	s.mu.Lock()
	s.gone.Add(removed)
	s.mu.Unlock()
}

// fail keeps a failure. Failures after the first twenty are only counted.
func (s *sweeper) fail(f *folder, err error) {
	f.mark()
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var mounted *MountedError
	switch {
	case errors.As(err, &mounted):
		s.errs = append(s.errs, err)
	case len(s.errs) < namedFailures:
		if errno, ok := err.(unix.Errno); ok {
			err = explain(errno)
		}
		s.errs = append(s.errs, &fs.PathError{Op: "remove", Path: shortened(f.full()), Err: err})
	case len(s.errs) == namedFailures:
		s.errs = append(s.errs, errors.New("removing: and more"))
	}
}
