package diskdiff

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskaudit"
)

// The groups of files that differ.
const (
	// OfChangedPackage are files of packages that were upgraded, added or removed.
	OfChangedPackage = "changed package"
	// OfSamePackage are files of packages that have the same version on both disks.
	OfSamePackage = "same package"
	// OfNoPackage are files that no package owns, and folders that several own.
	OfNoPackage = "no package"
)

// File is a file that differs. Without Before, the file was added; without After, it
// was removed.
type File struct {
	// Name is the path. Path is the same for JSON: quoted as in Go if it is not UTF-8.
	Name string `json:"-"`
	Path string `json:"path"`
	// Group is one of the constants Of….
	Group   string `json:"group"`
	Package string `json:"package,omitempty"`
	// Differs lists what differs between Before and After: content, size, mode, owner
	// and so on.
	Differs []string `json:"differs,omitempty"`
	Before  *State   `json:"before"`
	After   *State   `json:"after"`
}

// State is a file on one of the disks.
type State struct {
	Type  string `json:"type"`
	Mode  string `json:"mode"`
	Owner string `json:"owner"`
	Size  *int64 `json:"size,omitempty"`
	// SHA256 is that of the content of a file of up to 1 GiB.
	SHA256 string `json:"sha256,omitempty"`
	Target string `json:"target,omitempty"`
	Device string `json:"device,omitempty"`
	Links  uint64 `json:"links,omitempty"`
	// Attributes are the names of the extended attributes.
	Attributes []string `json:"attributes,omitempty"`
}

// files merges the lists of two disks.
func files(before, after *diskaudit.Listing, changed []Package) ([]File, error) {
	was, is := &side{list: before}, &side{list: after}
	byName := map[string]*Package{}
	for i := range changed {
		byName[changed[i].Name] = &changed[i]
	}
	list := []File{}
	for {
		if err := errors.Join(was.fill(), is.fill()); err != nil {
			return nil, err
		}
		a, b := was.entry, is.entry
		if a == nil && b == nil {
			return list, nil
		}
		order := compare(a, b)
		f := File{}
		if order <= 0 {
			f.Name, f.Before, f.Package = a.Path, stateOf(a), nameOf(a.Owner, before.Packages)
			was.entry = nil
		}
		if order >= 0 {
			f.Name, f.After, f.Package = b.Path, stateOf(b), cmp.Or(nameOf(b.Owner, after.Packages), f.Package)
			is.entry = nil
		}
		if order == 0 {
			f.Differs = differs(a, b)
		}
		if order != 0 || len(f.Differs) > 0 {
			f.Path = named(f.Name)
			list = append(list, grouped(f, byName))
		}
	}
}

func grouped(f File, changed map[string]*Package) File {
	switch p := changed[f.Package]; {
	case f.Package == "":
		f.Group = OfNoPackage
	case p != nil:
		f.Group = OfChangedPackage
		p.Files++
	default:
		f.Group = OfSamePackage
	}
	return f
}

// side is one of the lists while they are merged.
type side struct {
	list  *diskaudit.Listing
	entry *diskaudit.Entry
	ended bool
}

// fill reads the next entry if there is none.
func (s *side) fill() error {
	if s.entry != nil || s.ended {
		return nil
	}
	e, err := s.list.Next()
	if errors.Is(err, io.EOF) {
		s.ended = true
		return nil
	}
	s.entry = &e
	return err
}

// compare is the order of two entries: folders come before their content. No entry
// comes after all others.
func compare(a, b *diskaudit.Entry) int {
	switch {
	case a == nil:
		return 1
	case b == nil:
		return -1
	case a.Path == b.Path:
		return 0
	}
	return slices.Compare(strings.Split(strings.Trim(a.Path, "/"), "/"), strings.Split(strings.Trim(b.Path, "/"), "/"))
}

// differs lists what differs between two files.
func differs(a, b *diskaudit.Entry) []string {
	if a.Kind != b.Kind {
		return []string{"type"}
	}
	var list []string
	note := func(differ bool, what string) {
		if differ {
			list = append(list, what)
		}
	}
	note(a.Sum != b.Sum || a.Size != b.Size, "content")
	note(a.Size != b.Size, "size")
	note(a.Target != b.Target, "target")
	note(a.Device != b.Device, "device")
	note(a.Mode != b.Mode, "mode")
	note(a.UID != b.UID || a.GID != b.GID, "owner")
	note(a.Links != b.Links, "hard links")
	for name := range Differing(a.Attributes, b.Attributes) {
		note(true, attribute(name))
	}
	return list
}

func attribute(name string) string {
	if name == "security.capability" {
		return "capabilities"
	}
	return "attribute " + named(name)
}

func stateOf(e *diskaudit.Entry) *State {
	s := &State{
		Type: e.Kind, Mode: fmt.Sprintf("%04o", e.Mode), Owner: fmt.Sprintf("%d:%d", e.UID, e.GID),
		Target: named(e.Target), Device: e.Device, Links: e.Links,
	}
	if e.Kind == diskaudit.File {
		s.Size = &e.Size
		if e.Size <= diskaudit.PlainMost {
			s.SHA256 = hex.EncodeToString(e.Sum[:])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Attributes)) {
		s.Attributes = append(s.Attributes, named(name))
	}
	return s
}

// named is a name for JSON, which has only UTF-8.
func named(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	return strconv.Quote(name)
}
