package artifact

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/manifest"
)

// Limits on what an archive may unpack to, far above any real asset: an
// archive of a few kilobytes can claim terabytes.
const (
	mostUnpacked = 2 << 30
	mostMembers  = 10_000
)

// stagingName is the folder in the target that an archive is unpacked into
// until its sum is verified. It has one name per asset, so that the next run
// removes what a killed one left.
func stagingName(d Download) string { return path.Join(d.Target, ".eksnode-"+d.ID) }

// installArchive unpacks an archive beside its place while it streams in, and
// moves the members into place when the sum is right.
func installArchive(h *host.Host, d Download, v *verifier) (files []manifest.File, err error) {
	staging := stagingName(d)
	if _, err := h.Files.RemoveTree(staging); err != nil {
		return nil, fmt.Errorf("removing what an interrupted run left: %w", err)
	}
	defer func() {
		_, rmErr := h.Files.RemoveTree(staging)
		err = errors.Join(err, rmErr)
	}()
	if err := h.Files.MkdirAll(staging, 0o755); err != nil {
		return nil, explainWrite(err)
	}
	u := &unpacker{files: h.Files, staging: staging, target: d.Target, kinds: map[string]byte{}}
	unpackErr := u.unpack(v)
	var here *fs.PathError
	if errors.As(unpackErr, &here) { // the disk is at fault, whatever the download's sum
		return nil, fmt.Errorf("unpacking %s: %w", d, explainWrite(unpackErr))
	}
	// A download that is broken or forged is told before a member that is: the
	// sum is checked first, and only a verified archive's content is blamed.
	if err := v.check(); err != nil {
		return nil, err
	}
	if unpackErr != nil {
		return nil, fmt.Errorf("unpacking %s: %w; nothing was installed", d, unpackErr)
	}
	return u.move()
}

// unpacker unpacks a tar.gz into a folder and nowhere else.
type unpacker struct {
	files           *host.Files
	staging, target string

	folders []string // relative, parents first
	members []manifest.File
	kinds   map[string]byte // what each member is, as tar's type flag
	bytes   int64
}

func (u *unpacker) unpack(r io.Reader) error {
	zipped, err := gzip.NewReader(r)
	if err != nil {
		return fmt.Errorf("it is not gzip: %w", err)
	}
	defer zipped.Close()
	tarred := tar.NewReader(zipped)
	for n := 0; ; n++ {
		head, err := tarred.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("it is not a tar archive: %w", err)
		}
		if n == mostMembers {
			return fmt.Errorf("it has more than %d members", mostMembers)
		}
		if err := u.member(head, tarred); err != nil {
			return err
		}
	}
}

// member unpacks one member.
func (u *unpacker) member(head *tar.Header, content io.Reader) error {
	name, err := u.safe(head.Name)
	if err != nil {
		return err
	}
	if name == "." {
		return nil
	}
	switch head.Typeflag {
	case tar.TypeDir:
		return u.folder(name)
	case tar.TypeReg:
		return u.file(name, head, content)
	case tar.TypeSymlink:
		return u.link(name, head.Linkname)
	case tar.TypeXGlobalHeader:
		return nil
	default:
		return fmt.Errorf("its member %q is neither a file, a folder nor a symbolic link", head.Name)
	}
}

// safe is a member's name inside the folder. Names that lead out of it, or
// through a link of the archive's own, are refused.
func (u *unpacker) safe(raw string) (string, error) {
	if raw == "" || strings.HasPrefix(raw, "/") || slices.Contains(strings.Split(raw, "/"), "..") || strings.ContainsRune(raw, 0) {
		return "", fmt.Errorf("its member %q would lie outside %s", raw, u.target)
	}
	name := path.Clean(raw)
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if u.kinds[dir] == tar.TypeSymlink {
			return "", fmt.Errorf("its member %q lies behind its own link %q", raw, dir)
		}
	}
	if kind := u.kinds[name]; kind != 0 && kind != tar.TypeDir {
		return "", fmt.Errorf("it has the member %q twice", raw)
	}
	return name, nil
}

func (u *unpacker) folder(name string) error {
	if u.kinds[name] == tar.TypeDir {
		return nil
	}
	if err := u.parents(name); err != nil {
		return err
	}
	u.kinds[name] = tar.TypeDir
	u.folders = append(u.folders, name)
	return u.files.Mkdir(path.Join(u.staging, name), 0o755)
}

// parents makes the folders that an archive left out.
func (u *unpacker) parents(name string) error {
	dir := path.Dir(name)
	switch kind := u.kinds[dir]; {
	case dir == "." || kind == tar.TypeDir:
		return nil
	case kind != 0:
		return fmt.Errorf("its member %q lies below a file", name)
	}
	return u.folder(dir)
}

// file writes a member with root as owner and one of two modes: an archive's
// own owners and set-user-id bits are nobody's decision.
func (u *unpacker) file(name string, head *tar.Header, content io.Reader) error {
	if err := u.parents(name); err != nil {
		return err
	}
	if u.kinds[name] != 0 {
		return fmt.Errorf("it has the member %q twice", head.Name)
	}
	if u.bytes += head.Size; u.bytes > mostUnpacked {
		return fmt.Errorf("it unpacks to more than %d bytes", int64(mostUnpacked))
	}
	mode := dataMode
	if head.Mode&0o111 != 0 {
		mode = programMode
	}
	out, err := u.files.OpenFile(path.Join(u.staging, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.CopyBuffer(io.MultiWriter(onlyWriter{out}, sum), content, make([]byte, 256<<10))
	if err := errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("its member %q: %w", head.Name, err)
	}
	if err := u.files.Chmod(path.Join(u.staging, name), mode); err != nil { // the umask may have taken bits away
		return err
	}
	u.kinds[name] = tar.TypeReg
	u.members = append(u.members, manifest.File{Path: name, Mode: manifest.Mode(mode), Size: n, SHA256: hex.EncodeToString(sum.Sum(nil))})
	return nil
}

// link makes a symbolic link that stays inside the folder.
func (u *unpacker) link(name, to string) error {
	inside := path.Join(path.Dir(name), to)
	if to == "" || strings.HasPrefix(to, "/") || inside == ".." || strings.HasPrefix(inside, "../") {
		return fmt.Errorf("its link %q points to %q, outside %s", name, to, u.target)
	}
	for dir := inside; dir != "."; dir = path.Dir(dir) {
		if u.kinds[dir] == tar.TypeSymlink {
			return fmt.Errorf("its link %q points through its own link %q", name, dir)
		}
	}
	if err := u.parents(name); err != nil {
		return err
	}
	if u.kinds[name] != 0 {
		return fmt.Errorf("it has the member %q twice", name)
	}
	u.kinds[name] = tar.TypeSymlink
	u.members = append(u.members, manifest.File{Path: name, Mode: 0o777, Link: to})
	return u.files.SymlinkIfPossible(to, path.Join(u.staging, name))
}

// move puts the verified members into place, each by a rename.
func (u *unpacker) move() ([]manifest.File, error) {
	for _, dir := range u.folders {
		if err := makeFolder(u.files, path.Join(u.target, dir)); err != nil {
			return nil, err
		}
	}
	files := make([]manifest.File, 0, len(u.members))
	for _, m := range u.members {
		from := path.Join(u.staging, m.Path)
		m.Path = path.Join(u.target, m.Path)
		if err := u.files.Rename(from, m.Path); err != nil {
			return nil, err
		}
		files = append(files, m)
	}
	return files, nil
}

// makeFolder makes a folder whose mode no umask decides; one that is there
// keeps its own.
func makeFolder(files *host.Files, name string) error {
	err := files.Mkdir(name, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return files.Chmod(name, 0o755)
}
