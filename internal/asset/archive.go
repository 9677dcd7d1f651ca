package asset

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/expand"
)

// Limits on the unpacked size of an archive, far above any real asset: an archive
// of a few kilobytes can claim terabytes. An archive is unpacked while it streams
// in, before its sum is verified. The disk space used until then is therefore
// bounded by the bytes received: programs compress to a third, and 32 times is too
// little for an attack on the disk.
const (
	mostUnpacked = 2 << 30  // bytes
	mostMembers  = 10_000   // with the folders that have no member of their own
	mostInflated = 32       // bytes for each byte received,
	freeInflated = 16 << 20 // plus these bytes
)

var errInflated = fmt.Errorf("the archive unpacks to more than %d times its size", mostInflated)

// stagingName is the folder in the target into which an archive is unpacked until
// its sum is verified. Its name depends on the asset only, so that the next run
// removes the folder of a killed run.
func stagingName(d Download) string { return path.Join(d.Target, stagingPrefix+d.ID) }

// installArchive unpacks an archive next to its place while it streams in. It moves
// the members into place when the sum is right.
func installArchive(h *host.Host, d Download, v *verifier) (files []manifest.File, err error) {
	staging := stagingName(d)
	if _, err := h.Files.RemoveTree(staging); err != nil {
		return nil, fmt.Errorf("removing the rest of an interrupted run: %w", err)
	}
	defer func() {
		_, rmErr := h.Files.RemoveTree(staging)
		err = errors.Join(err, rmErr)
	}()
	if err := h.Files.MkdirAll(d.Target, 0o755); err != nil {
		return nil, explainWrite(err)
	}
	if err := h.Files.Mkdir(staging, 0o700); err != nil { // other users must not run unverified programs
		return nil, explainWrite(err)
	}
	u := &unpacker{files: h.Files, staging: staging, target: d.Target, kinds: map[string]byte{}}
	unpackErr := u.unpack(v)
	if unpackErr == nil {
		unpackErr = errors.Join(u.checkLinks(), u.checkPlaces())
	}
	// Check the sum first: an error in a member matters only in a verified archive.
	if err := v.check(); err != nil {
		return nil, err
	}
	switch {
	case errors.As(unpackErr, new(*fs.PathError)): // writing to the disk failed
		return nil, fmt.Errorf("unpacking %s: %w", d, explainWrite(unpackErr))
	case unpackErr != nil:
		return nil, fmt.Errorf("unpacking %s: %w; nothing was installed", d, unpackErr)
	}
	return u.move()
}

// inflated is the content of a compressed archive. It fails when the content is out
// of proportion to the archive.
type inflated struct {
	from  io.Reader
	in    *verifier
	bytes int64
}

func (i *inflated) Read(p []byte) (int, error) {
	n, err := i.from.Read(p)
	if i.bytes += int64(n); i.bytes > freeInflated+mostInflated*i.in.done {
		return 0, errInflated
	}
	return n, err
}

// unpacker unpacks a tar.gz into one folder and nowhere else. Without files, it only
// judges the members.
type unpacker struct {
	files           *host.Files
	staging, target string

	folders []string // relative, parents first
	members []manifest.File
	kinds   map[string]byte // each member's type flag of tar
	bytes   int64

	// arch is the architecture that programs must have when files is nil; programs
	// counts them.
	arch     string
	programs int
}

func (u *unpacker) unpack(v *verifier) error {
	zipped, err := gzip.NewReader(v)
	if err != nil {
		return fmt.Errorf("the archive is not gzip: %w", err)
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
			return fmt.Errorf("the content is not a tar archive: %w", err)
		case n == mostMembers:
			return errMembers
		}
		if err := u.member(head, tarred); err != nil {
			return err
		}
	}
}

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
		return fmt.Errorf("the archive's member %s is neither a file, a folder nor a symbolic link", quoted(head.Name))
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
	if u.files == nil {
		return nil
	}
	return u.files.Mkdir(path.Join(u.staging, name), 0o755)
}

// parents makes the folders that have no member of their own.
func (u *unpacker) parents(name string) error {
	dir := path.Dir(name)
	switch kind := u.kinds[dir]; {
	case dir == "." || kind == tar.TypeDir:
		return nil
	case kind != 0:
		return fmt.Errorf("the archive's member %s lies below a file", quoted(name))
	}
	return u.folder(dir)
}

// file writes a member with root as owner and one of two modes. The archive's
// owners and set-user-id bits are ignored.
func (u *unpacker) file(name string, head *tar.Header, content io.Reader) error {
	if err := u.parents(name); err != nil {
		return err
	}
	if u.kinds[name] != 0 {
		return fmt.Errorf("the archive has the member %s twice", quoted(head.Name))
	}
	if head.Size > mostUnpacked-u.bytes { // a sum of sizes could overflow
		return fmt.Errorf("the archive unpacks to more than %d bytes", int64(mostUnpacked))
	}
	u.bytes += head.Size
	if isSparse(head) {
		return fmt.Errorf("the archive's member %s has holes", quoted(head.Name))
	}
	if err := u.add(name, tar.TypeReg); err != nil {
		return err
	}
	if u.files == nil {
		return u.judge(head, content)
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
		return fmt.Errorf("the archive's member %s: %w", quoted(head.Name), err)
	}
	if err := u.files.Chmod(path.Join(u.staging, name), mode); err != nil { // the umask may have removed bits
		return err
	}
	u.members = append(u.members, manifest.File{Path: name, Mode: manifest.Mode(mode), Size: n,
		SHA256: hex.EncodeToString(sum.Sum(nil))})
	return nil
}

// link makes a symbolic link. checkLinks checks its target later.
func (u *unpacker) link(name, to string) error {
	if err := u.parents(name); err != nil {
		return err
	}
	if u.kinds[name] != 0 {
		return fmt.Errorf("the archive has the member %s twice", quoted(name))
	}
	if err := errors.Join(u.straight(name, to), u.add(name, tar.TypeSymlink)); err != nil {
		return err
	}
	u.members = append(u.members, manifest.File{Path: name, Mode: 0o777, Link: to})
	if u.files == nil {
		return nil
	}
	return u.files.SymlinkIfPossible(to, path.Join(u.staging, name))
}

// move renames the verified members into place.
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

// makeFolder makes a folder with mode 0755, independent of the umask. An existing
// folder keeps its mode.
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

// Blob returns the content with that SHA-256 and at most that many bytes. It comes
// from the cache or, verified, from open, which opens the content from a byte on.
// The cache keeps the part of an interrupted blob, and the next call fetches only
// the rest. A blob with a wrong sum is not kept.
func (c *Cache) Blob(ctx context.Context, sum string, most int64,
	open func(from int64) (io.ReadCloser, error)) (Kept, error) {
	return c.keep(ctx, sum, 0, func(file *os.File) (int64, error) { return resumeBlob(ctx, sum, most, file, open) })
}

func resumeBlob(ctx context.Context, sum string, most int64, file *os.File,
	open func(from int64) (io.ReadCloser, error)) (int64, error) {
	hash := sha256.New()
	return resume(ctx, file, hash, func(from int64) (content, error) {
		body, err := open(from)
		return content{body, -1}, err
	}, func(body content, from int64) io.Reader {
		return io.TeeReader(io.LimitReader(expand.Until(ctx, body), most-from+1), hash)
	}, func(size int64) error {
		if size > most {
			return fmt.Errorf("verifying the blob sha256:%s: the content has more than %d bytes", sum, most)
		}
		if got := hex.EncodeToString(hash.Sum(nil)); got != sum {
			return fmt.Errorf("verifying the blob sha256:%s: the content has the SHA-256 %s", sum, got)
		}
		return nil
	})
}

// Scratch makes a file in the cache's folder that is removed when it is closed.
func (c *Cache) Scratch() (*Scratch, error) {
	if err := c.makeFolders(); err != nil {
		return nil, err
	}
	c.sweep()
	file, err := os.OpenFile(filepath.Join(c.folder, "partial", "scratch."+rand.Text()),
		os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening a file in the cache: %w", err)
	}
	return &Scratch{file}, nil
}

// sweep removes the scratch files of killed runs. A file that another process has
// open stays readable there or, on Windows, stays.
func (c *Cache) sweep() {
	left, _ := filepath.Glob(filepath.Join(c.folder, "partial", "scratch.*")) // the pattern is valid
	for _, name := range left {
		if st, err := os.Stat(name); err == nil && time.Since(st.ModTime()) > abandoned {
			_ = os.Remove(name) // otherwise the next run does
		}
	}
}

// Scratch is a file that exists while it is open.
type Scratch struct{ *os.File }

// Close closes and removes the file.
func (s *Scratch) Close() error {
	err := s.File.Close()
	if rmErr := os.Remove(s.Name()); !errors.Is(rmErr, os.ErrNotExist) {
		err = errors.Join(err, rmErr)
	}
	return err
}
