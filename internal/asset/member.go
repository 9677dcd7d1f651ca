package asset

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/eksnode/packer-plugin-eksnode/internal/show"
)

// The longest names in bytes: of a member, and of its parts, as on every file
// system.
const (
	mostName = 1024
	mostPart = 255
)

// errMembers is an archive that would use up the disk's inodes.
var errMembers = fmt.Errorf("the archive has more than %d members", mostMembers)

// stagingPrefix begins the names of the folders into which archives are unpacked.
const stagingPrefix = ".eksnode-"

// safe is a member's name inside the folder. It refuses names that lead out of the
// folder, through a link of the archive or into the staging folder. It also refuses
// names that are too long or not printable.
func (u *unpacker) safe(raw string) (string, error) {
	parts := strings.Split(raw, "/")
	switch {
	case len(raw) > mostName:
		return "", fmt.Errorf("the archive's member %s has a name of more than %d bytes", quoted(raw), mostName)
	case slices.ContainsFunc(parts, func(part string) bool { return len(part) > mostPart }):
		return "", fmt.Errorf("the archive's member %s has a name of more than %d bytes between slashes", quoted(raw), mostPart)
	case raw == "" || parts[0] == "" || slices.Contains(parts, "..") || strings.ContainsRune(raw, 0):
		return "", fmt.Errorf("the archive's member %q would lie outside %s", raw, u.target)
	case !isPrintable(raw):
		return "", fmt.Errorf("the archive's member %q has a name that cannot be printed", raw)
	}
	name := path.Clean(raw)
	if strings.HasPrefix(name, stagingPrefix) {
		return "", fmt.Errorf("the archive's member %q has a name that eksnode itself uses", raw)
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if u.kinds[dir] == tar.TypeSymlink {
			return "", fmt.Errorf("the archive's member %q lies behind the archive's own link %q", raw, dir)
		}
	}
	if kind := u.kinds[name]; kind != 0 && kind != tar.TypeDir {
		return "", fmt.Errorf("the archive has the member %q twice", raw)
	}
	return name, nil
}

// add records a member's name and type.
func (u *unpacker) add(name string, kind byte) error {
	if len(u.kinds) == mostMembers {
		return errMembers
	}
	u.kinds[name] = kind
	return nil
}

// isSparse says that a file has more bytes than the archive contains. The old
// sparse format has a type of its own, which is refused as an unknown type.
func isSparse(head *tar.Header) bool {
	for record := range head.PAXRecords {
		if strings.HasPrefix(record, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// straight refuses link targets that lead outside by their text, and targets that
// go up again after they went down: a part on the way down may be a link of the
// machine.
func (u *unpacker) straight(name, to string) error {
	parts := strings.Split(to, "/")
	inside := path.Join(path.Dir(name), to)
	switch {
	case to == "" || parts[0] == "" || inside == ".." || strings.HasPrefix(inside, "../"):
		return fmt.Errorf("the archive's link %q points to %s, outside %s", name, quoted(to), u.target)
	case len(to) > mostName || !isPrintable(to):
		return fmt.Errorf("the archive's link %q points to %s, which cannot be printed", name, quoted(to))
	}
	return nil
}

// checkLinks follows every link once all are known, in any order of the archive. A
// link must not lead through another link, which could turn ".." to a place that
// the text does not show.
func (u *unpacker) checkLinks() error {
	for _, m := range u.members {
		if m.Link == "" {
			continue
		}
		at, down := path.Dir(m.Path), false
		for part := range strings.SplitSeq(m.Link, "/") {
			if part == ".." && down {
				return fmt.Errorf("the archive's link %q points to %q, which goes up after it went down", m.Path, m.Link)
			}
			at = path.Join(at, part)
			down = down || part != ".." && part != "." && part != ""
			if u.kinds[at] == tar.TypeSymlink {
				return fmt.Errorf("the archive's link %q points through the archive's own link %q", m.Path, at)
			}
		}
	}
	return nil
}

// checkPlaces makes sure that every member can be moved to its place, before the
// first member moves.
func (u *unpacker) checkPlaces() error {
	for _, dir := range u.folders {
		at := path.Join(u.target, dir)
		st, err := u.files.Stat(at)
		if errors.Is(err, fs.ErrNotExist) { // missing, or a dangling link, which is in the way
			if _, err = u.files.Lstat(at); errors.Is(err, fs.ErrNotExist) {
				continue
			}
		}
		if err == nil && (st == nil || !st.IsDir()) {
			return fmt.Errorf("%s is in the way: it is not a folder; move it away", at)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, m := range u.members {
		at := path.Join(u.target, m.Path)
		st, err := u.files.Lstat(at)
		if err == nil && !st.Mode().IsRegular() && st.Mode().Type() != fs.ModeSymlink {
			return fmt.Errorf("%s is in the way: it is neither a file nor a link; move it away", at)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// isPrintable says whether a name can be printed and written to the manifest.
func isPrintable(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

func quoted(name string) string { return show.Quote(name, 100) }
