package asset

import (
	"archive/tar"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
)

// LockSchema names the lock file's format. It changes when a reader would break.
const LockSchema = "eksnode.lock/v1"

// Lock is a lock file. It pins each download as it was when it was first fetched
// and verified. With a lock file, nothing else is installed.
type Lock struct {
	Schema string        `json:"schema"`
	Assets []Locked      `json:"assets"`
	Images []LockedImage `json:"images,omitempty"`
	// SHA256 is the sum of the lock file without this field. It reveals a damaged
	// file and edits by hand.
	SHA256 string `json:"sha256"`
}

// Locked pins one download.
type Locked struct {
	ID string `json:"id"`
	// Kubernetes and Arch are the Kubernetes version and the architecture of the
	// machines.
	Kubernetes string `json:"kubernetes"`
	Arch       string `json:"arch"`
	Version    string `json:"version"`
	// Origin is the publisher's ID. BuildDate is the day of the publisher's build,
	// or empty when the publisher's releases have none.
	Origin    string `json:"origin"`
	BuildDate string `json:"build_date,omitempty"`
	// URL is the publisher's own address, also when the file came from a mirror.
	URL string `json:"url"`
	// FetchedFrom is the mirror's address, or "a folder". It is empty when the file
	// came from URL.
	FetchedFrom string `json:"fetched_from,omitempty"`
	// SumFrom says who vouched for SHA256: the address of the checksum file,
	// "a folder", or "checksums" for the field.
	SumFrom string `json:"sum_from,omitempty"`
	Size    int64  `json:"size"` // bytes
	SHA256  string `json:"sha256"`
}

func (l Locked) key() string { return l.Kubernetes + " " + l.Arch + " " + l.ID }

// LockedImage pins the digest of a container image's name.
type LockedImage struct {
	// Name has a tag, such as "registry.k8s.io/pause:3.10".
	Name string `json:"name"`
	// Digest is the digest of the manifest, or of the list of manifests, such as
	// "sha256:…".
	Digest string `json:"digest"`
}

const remade = `restore the file from version control, or delete it and create it again with "eksnode lock"`

// ParseLock reads a lock file. Unknown fields, entries that contradict themselves
// or each other, and content with another SHA-256 than the recorded one are errors.
func ParseLock(data []byte) (*Lock, error) {
	var l Lock
	if err := strictjson.Read(data, &l); err != nil {
		return nil, fmt.Errorf("not a lock file: %w; %s", err, remade)
	}
	return &l, l.Check()
}

// Check returns the faults of a lock.
func (l *Lock) Check() error {
	if l.Schema != LockSchema {
		return fmt.Errorf("the schema is %q, not %q; another version of eksnode wrote the file, or it was edited "+
			"by hand; %s", l.Schema, LockSchema, remade)
	}
	sum, err := l.sum()
	if err != nil {
		return err
	}
	if sum != l.SHA256 {
		return fmt.Errorf("the content has the SHA-256 %s, but the field sha256 is %s: the file was edited by hand "+
			"or is damaged; %s", sum, l.SHA256, remade)
	}
	seen := map[string]bool{}
	for _, a := range l.Assets {
		if err := a.check(); err != nil {
			return fmt.Errorf("the entry of %s for Kubernetes %s on %s: %w; %s", a.ID, a.Kubernetes, a.Arch, err,
				remade)
		}
		if seen[a.key()] {
			return fmt.Errorf("the file has %s for Kubernetes %s on %s twice; %s", a.ID, a.Kubernetes, a.Arch, remade)
		}
		seen[a.key()] = true
	}
	for _, i := range l.Images {
		if err := i.check(); err != nil {
			return fmt.Errorf("the image %q: %w; %s", i.Name, err, remade)
		}
		if seen["image "+i.Name] {
			return fmt.Errorf("the file has the image %s twice; %s", i.Name, remade)
		}
		seen["image "+i.Name] = true
	}
	return nil
}

func (l Locked) check() error {
	u, err := url.Parse(l.URL)
	switch {
	case l.ID == "" || l.Kubernetes == "" || l.Arch == "" || l.Version == "":
		return errors.New("id, kubernetes, arch and version must not be empty")
	case err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil:
		return errors.New("url must be the publisher's address, with https and without a user")
	case l.Size <= 0:
		return fmt.Errorf("size is %d bytes", l.Size)
	case !IsSum(l.SHA256):
		return fmt.Errorf("sha256 is %q, not 64 hexadecimal digits", l.SHA256)
	}
	return CheckOrigin(l.Origin)
}

func (i LockedImage) check() error {
	sum, ok := strings.CutPrefix(i.Digest, "sha256:")
	if i.Name == "" || !ok || !IsSum(sum) {
		return fmt.Errorf("digest is %q, not sha256: and 64 hexadecimal digits", i.Digest)
	}
	return nil
}

// sum is the SHA-256 of the lock without the field sha256.
func (l *Lock) sum() (string, error) {
	bare := *l
	bare.SHA256 = ""
	data, err := json.Marshal(bare)
	if err != nil {
		return "", fmt.Errorf("writing the lock file: %w", err)
	}
	return manifest.Sum(data), nil
}

// Encode is the lock file's text: sorted, indented, and the same for the same
// content.
func (l *Lock) Encode() ([]byte, error) {
	sorted := *l
	sorted.Schema = LockSchema
	sorted.Assets = slices.SortedFunc(slices.Values(l.Assets),
		func(a, b Locked) int { return strings.Compare(a.key(), b.key()) })
	sorted.Images = slices.SortedFunc(slices.Values(l.Images),
		func(a, b LockedImage) int { return strings.Compare(a.Name, b.Name) })
	var err error
	if sorted.SHA256, err = sorted.sum(); err != nil {
		return nil, err
	}
	data, err := json.MarshalIndent(sorted, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the lock file: %w", err)
	}
	return append(data, '\n'), nil
}

// Find returns the entry of a download. The lock may be nil.
func (l *Lock) Find(id, kubernetes, arch string) (Locked, bool) {
	want := Locked{ID: id, Kubernetes: kubernetes, Arch: arch}.key()
	for _, a := range cmp.Or(l, &Lock{}).Assets {
		if a.key() == want {
			return a, true
		}
	}
	return Locked{}, false
}

// Image returns an image's digest. The lock may be nil.
func (l *Lock) Image(name string) (string, bool) {
	for _, i := range cmp.Or(l, &Lock{}).Images {
		if i.Name == name {
			return i.Digest, true
		}
	}
	return "", false
}

// Put adds or replaces an entry. An entry of the same file with another SHA-256 is
// an error with both sums: a released file must not change.
func (l *Lock) Put(a Locked) error {
	old, there := l.Find(a.ID, a.Kubernetes, a.Arch)
	if there && old.URL == a.URL && (old.SHA256 != a.SHA256 || old.Size != a.Size) {
		return &ChangedError{Name: a.ID + " " + a.Version, URL: a.URL, Old: old.SHA256, New: a.SHA256}
	}
	l.Drop(a.ID, a.Kubernetes, a.Arch)
	l.Assets = append(l.Assets, a)
	return nil
}

// Drop removes an entry.
func (l *Lock) Drop(id, kubernetes, arch string) {
	gone := Locked{ID: id, Kubernetes: kubernetes, Arch: arch}.key()
	l.Assets = slices.DeleteFunc(slices.Clone(l.Assets), func(o Locked) bool { return o.key() == gone })
}

// PutImage adds or replaces an image.
func (l *Lock) PutImage(i LockedImage) {
	others := slices.DeleteFunc(slices.Clone(l.Images), func(o LockedImage) bool { return o.Name == i.Name })
	l.Images = append(others, i)
}

// ChangedError is a file with another SHA-256 than in the lock file.
type ChangedError struct{ Name, URL, Old, New string }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("%s at %s has the SHA-256 %s, but the lock file has %s: the released file has changed, which "+
		"must not happen; find out why before you accept the new one",
		e.Name, e.URL, e.New, e.Old)
}

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
		return "", fmt.Errorf("the archive's member %s has a name of more than %d bytes between slashes", quoted(raw),
			mostPart)
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
				return fmt.Errorf("the archive's link %q points to %q, which goes up after it went down", m.Path,
					m.Link)
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
