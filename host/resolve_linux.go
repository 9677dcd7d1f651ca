package host

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// place is a resolved name: an entry called base in an open directory. The entry
// may be missing. Later calls use only the directory's descriptor and base, so that
// a link that is swapped in later cannot lead out of the root.
type place struct {
	dir  int // O_PATH descriptor, owned by the place
	base string
}

func (p place) close() { _ = unix.Close(p.dir) }

// resolve finds name inside the root. Absolute targets of links start at the root
// again, and ".." at the root stays there. With follow, a link in the last place is
// followed too.
func (f *Files) resolve(name string, follow bool) (place, error) {
	parts := split(name)
	p, ok, err := f.resolveByKernel(parts, follow)
	if ok || err != nil {
		return p, err
	}
	return f.walk(parts, follow)
}

// resolveByKernel resolves by one openat2(2) with RESOLVE_IN_ROOT. It leaves these
// cases to walk: kernels before 5.6 (Amazon Linux 2 boots 4.14), names with "..",
// links in the last place, and failures other than a missing folder.
func (f *Files) resolveByKernel(parts []string, follow bool) (p place, ok bool, err error) {
	if len(parts) == 0 || slices.Contains(parts, "..") {
		return place{}, false, nil
	}
	dir, base := parts[:len(parts)-1], parts[len(parts)-1]
	fd, err := unix.Openat2(f.root, "./"+strings.Join(dir, "/"), &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err == unix.ENOENT {
		return place{}, false, err
	}
	if err != nil {
		return place{}, false, nil
	}
	p = place{dir: fd, base: base}
	if follow {
		var st unix.Stat_t
		err := unix.Fstatat(fd, base, &st, unix.AT_SYMLINK_NOFOLLOW)
		if err != nil && err != unix.ENOENT || err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
			p.close()
			return place{}, false, nil
		}
	}
	return p, true, nil
}

// walk resolves one component at a time and never lets the kernel follow a link.
func (f *Files) walk(parts []string, follow bool) (place, error) {
	w := walker{todo: parts}
	defer w.close()
	if err := w.push(f.root, "."); err != nil {
		return place{}, err
	}
	for len(w.todo) > 0 {
		c := w.todo[0]
		w.todo = w.todo[1:]
		if c == ".." {
			w.pop()
			continue
		}
		last := len(w.todo) == 0
		if last && !follow {
			return w.take(c), nil
		}
		var st unix.Stat_t
		err := unix.Fstatat(w.top(), c, &st, unix.AT_SYMLINK_NOFOLLOW)
		isLink := st.Mode&unix.S_IFMT == unix.S_IFLNK
		switch {
		case last && (err == unix.ENOENT || err == nil && !isLink):
			return w.take(c), nil
		case err == nil && isLink:
			err = w.follow(c)
		case err == nil:
			err = w.push(w.top(), c)
		}
		if err != nil {
			return place{}, err
		}
	}
	return w.take("."), nil
}

type walker struct {
	dirs  []int // the directories from the root to the present one
	todo  []string
	links int
}

func (w *walker) top() int { return w.dirs[len(w.dirs)-1] }

// follow continues at a link's target.
func (w *walker) follow(c string) error {
	if w.links++; w.links > maxLinks {
		return unix.ELOOP
	}
	target, err := readlinkat(w.top(), c)
	if err != nil {
		return err
	}
	if strings.HasPrefix(target, "/") {
		for len(w.dirs) > 1 {
			w.pop()
		}
	}
	w.todo = append(split(target), w.todo...)
	return nil
}

func (w *walker) push(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	w.dirs = append(w.dirs, fd)
	return nil
}

// pop goes one directory up, and stays at the root.
func (w *walker) pop() {
	if len(w.dirs) > 1 {
		_ = unix.Close(w.top())
		w.dirs = w.dirs[:len(w.dirs)-1]
	}
}

// take hands the current directory to a place.
func (w *walker) take(base string) place {
	p := place{dir: w.top(), base: base}
	w.dirs = w.dirs[:len(w.dirs)-1]
	return p
}

func (w *walker) close() {
	for _, fd := range w.dirs {
		_ = unix.Close(fd)
	}
}

func readlinkat(dir int, name string) (string, error) {
	for size := 256; ; size *= 2 {
		buf := make([]byte, size)
		n, err := unix.Readlinkat(dir, name, buf)
		if err != nil {
			return "", err
		}
		if n < size {
			return string(buf[:n]), nil
		}
	}
}
