package asset

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

	"github.com/klauspost/compress/gzip"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
)

// Limits on what an archive may unpack to, far above any real asset: an
// archive of a few kilobytes can claim terabytes. It is unpacked while it
// streams in, before its sum is known, so what lies on the disk by then is
// bounded by what came: programs pack to a third, and 32 times is still little
// for who wants to fill a disk.
const (
	mostUnpacked = 2 << 30  // bytes
	mostMembers  = 10_000   // with the folders that no member names
	mostInflated = 32       // bytes for each that came,
	freeInflated = 16 << 20 // and these bytes
)

// errInflated is an archive that is nothing but large.
var errInflated = fmt.Errorf("it unpacks to more than %d times its size", mostInflated)

// stagingName is the folder in the target that an archive is unpacked into
// until its sum is verified. It has one name per asset, so that the next run
// removes what a killed one left.
func stagingName(d Download) string { return path.Join(d.Target, stagingPrefix+d.ID) }

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
	if err := h.Files.MkdirAll(d.Target, 0o755); err != nil {
		return nil, explainWrite(err)
	}
	if err := h.Files.Mkdir(staging, 0o700); err != nil { // nobody runs what is not verified
		return nil, explainWrite(err)
	}
	u := &unpacker{files: h.Files, staging: staging, target: d.Target, kinds: map[string]byte{}}
	unpackErr := u.unpack(v)
	if unpackErr == nil {
		unpackErr = errors.Join(u.checkLinks(), u.checkPlaces())
	}
	// A download that is broken or forged is told before a member that is: the
	// sum is checked first, and only a verified archive's content is blamed.
	if err := v.check(); err != nil {
		return nil, err
	}
	var here *fs.PathError
	switch {
	case errors.As(unpackErr, &here): // the disk is at fault
		return nil, fmt.Errorf("unpacking %s: %w", d, explainWrite(unpackErr))
	case unpackErr != nil:
		return nil, fmt.Errorf("unpacking %s: %w; nothing was installed", d, unpackErr)
	}
	return u.move()
}

// inflated is what comes out of an archive. It ends where that is out of
// proportion to what went in.
type inflated struct {
	from  io.Reader
	in    *verifier
	bytes int64
}

// Read implements io.Reader.
func (i *inflated) Read(p []byte) (int, error) {
	n, err := i.from.Read(p)
	if i.bytes += int64(n); i.bytes > freeInflated+mostInflated*i.in.done {
		return 0, errInflated
	}
	return n, err
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

func (u *unpacker) unpack(v *verifier) error {
	zipped, err := gzip.NewReader(v)
	if err != nil {
		return fmt.Errorf("it is not gzip: %w", err)
	}
	defer zipped.Close()
	tarred := tar.NewReader(&inflated{from: zipped, in: v})
	for n := 0; ; n++ {
		head, err := tarred.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errInflated):
			return errInflated
		case err != nil:
			return fmt.Errorf("it is not a tar archive: %w", err)
		case n == mostMembers:
			return errMembers
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
		return fmt.Errorf("its member %s is neither a file, a folder nor a symbolic link", quoted(head.Name))
	}
}

func (u *unpacker) folder(name string) error {
	if u.kinds[name] == tar.TypeDir {
		return nil
	}
	if err := u.parents(name); err != nil {
		return err
	}
	if err := u.add(name, tar.TypeDir); err != nil {
		return err
	}
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
		return fmt.Errorf("its member %s lies below a file", quoted(name))
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
		return fmt.Errorf("it has the member %s twice", quoted(head.Name))
	}
	if head.Size > mostUnpacked-u.bytes { // a sum of sizes could overflow
		return fmt.Errorf("it unpacks to more than %d bytes", int64(mostUnpacked))
	}
	u.bytes += head.Size
	if isSparse(head) {
		return fmt.Errorf("its member %s has holes", quoted(head.Name))
	}
	if err := u.add(name, tar.TypeReg); err != nil {
		return err
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
	if err := errors.Join(err, out.Close()); errors.Is(err, errInflated) {
		return errInflated
	} else if err != nil {
		return fmt.Errorf("its member %s: %w", quoted(head.Name), err)
	}
	if err := u.files.Chmod(path.Join(u.staging, name), mode); err != nil { // the umask may have taken bits away
		return err
	}
	u.members = append(u.members, manifest.File{Path: name, Mode: manifest.Mode(mode), Size: n, SHA256: hex.EncodeToString(sum.Sum(nil))})
	return nil
}

// link makes a symbolic link; checkLinks judges it.
func (u *unpacker) link(name, to string) error {
	if err := u.parents(name); err != nil {
		return err
	}
	if u.kinds[name] != 0 {
		return fmt.Errorf("it has the member %s twice", quoted(name))
	}
	if err := errors.Join(u.straight(name, to), u.add(name, tar.TypeSymlink)); err != nil {
		return err
	}
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
