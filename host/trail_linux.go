package host

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is the kernel's limit on links in one path (path_resolution(7)).
const maxLinks = 40

// Trail resolves the links of an absolute name inside the root. It returns the path
// of each link on the way and the path of the entry itself. With follow it also
// follows a link in the last place. From a missing part on, the rest of the name is
// kept.
func (h *Host) Trail(name string, follow bool) (links []string, place string, err error) {
	links, place, _, err = h.Files.trail(new(mountView), name, "", follow)
	if err != nil {
		return nil, "", fmt.Errorf("resolving %s: %w", name, err)
	}
	return links, place, nil
}

// trail is Trail up to the first foreign mount; see mountView.on. After an error it goes
// on by name.
func (f *Files) trail(v *mountView, name, named string, follow bool) (
	links []string, at string, _ *ForeignMount, failed error,
) {
	at, todo := "/", split(name)
	dir := f.root // the folder at "at", or -1 where it is missing
	move := func(to int) {
		if dir != f.root && dir >= 0 {
			_ = unix.Close(dir)
		}
		dir = to
	}
	defer move(-1)
	for turns := 0; len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		if turns > maxLinks {
			return links, at, nil, unix.ELOOP
		}
		if part == ".." { // start from the root again: "at" contains no link
			todo = append(split(path.Dir(at)), todo...)
			at, turns = "/", turns+1
			move(f.root)
			continue
		}
		next := strings.TrimSuffix(at, "/") + "/" + part
		if m := v.on(next, named); m != nil {
			return links, next, m, failed
		}
		if len(todo) == 0 && !follow {
			return links, next, nil, failed
		}
		target, err := readlinkat(dir, part)
		if err == nil {
			if path.IsAbs(target) {
				at = "/"
				move(f.root)
			}
			links, todo, turns = append(links, next), append(split(target), todo...), turns+1
			continue
		}
		if dir >= 0 && err != unix.EINVAL && err != unix.ENOENT && err != unix.ENOTDIR {
			failed = &fs.PathError{Op: "readlink", Path: next, Err: err}
		}
		at = next
		fd, err := unix.Openat(dir, part, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == unix.EMFILE || err == unix.ENFILE {
			return nil, "", nil, err
		}
		if err != nil {
			fd = -1
		}
		move(fd)
	}
	return links, at, nil, failed
}

// split returns the components of a path.
func split(name string) []string {
	return slices.DeleteFunc(strings.Split(name, "/"), func(part string) bool { return part == "" || part == "." })
}
