package host

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
)

// maxLinks is the kernel's limit on links in one path (path_resolution(7)).
const maxLinks = 40

// Trail resolves the links of an absolute name inside the root. It returns the path
// of each link on the way and the path of the entry itself. With follow it also
// follows a link in the last place. From a missing part on, the rest of the name is
// kept.
func (h *Host) Trail(name string, follow bool) (links []string, place string, err error) {
	place = "/"
	todo := split(name)
	for len(todo) > 0 {
		part := todo[0]
		todo = todo[1:]
		if part == ".." {
			place = path.Dir(place)
			continue
		}
		at := path.Join(place, part)
		if len(todo) == 0 && !follow {
			return links, at, nil
		}
		target, err := h.Files.ReadlinkIfPossible(at)
		switch {
		case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrNotExist): // no link
			place = at
			continue
		case err != nil:
			return nil, "", err
		case len(links) == maxLinks:
			return nil, "", fmt.Errorf("resolving %s: %w", name, syscall.ELOOP)
		}
		links = append(links, at)
		if path.IsAbs(target) {
			place = "/"
		}
		todo = append(split(target), todo...)
	}
	return links, place, nil
}

// split returns the components of a path.
func split(name string) []string {
	return slices.DeleteFunc(strings.Split(name, "/"), func(part string) bool { return part == "" || part == "." })
}
