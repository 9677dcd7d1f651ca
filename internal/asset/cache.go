package asset

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/expand"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// Cache keeps verified downloads by their SHA-256 in a folder of the running
// system. It also keeps the parts of interrupted downloads, so that the next run
// fetches only the rest. Several processes may use one cache at the same time.
type Cache struct {
	folder  string
	fetcher *Fetcher
}

// NewCache keeps downloads below folder, which is made at the first download.
func NewCache(folder string, f *Fetcher) *Cache { return &Cache{folder, f} }

// Fetcher returns the cache's fetcher.
func (c *Cache) Fetcher() *Fetcher { return c.fetcher }

// DefaultCache is the cache folder of the user.
func DefaultCache() (string, error) {
	home, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache's folder: %w", err)
	}
	return filepath.Join(home, "eksnode", "assets"), nil
}

// Kept is a download in the cache.
type Kept struct {
	Path   string // of the file; it must not be changed
	Size   int64  // bytes
	SHA256 string
}

// Get returns a verified download. It is fetched when the cache does not have it or
// the cached file is damaged.
func (c *Cache) Get(ctx context.Context, d Download, progress plan.Progress) (Kept, error) {
	sum, err := c.fetcher.sum(ctx, d)
	if err != nil {
		return Kept{}, err
	}
	return c.keep(ctx, sum, d.Size, func(file *os.File) (int64, error) { return c.resume(ctx, d, sum, file, progress) })
}

// keep returns the file with a sum and, unless it is 0, a size. A file that is missing or
// damaged is fetched: resume appends the missing bytes to a file and verifies the whole file.
func (c *Cache) keep(ctx context.Context, sum string, size int64, resume func(*os.File) (int64, error)) (Kept, error) {
	kept := Kept{Path: filepath.Join(c.folder, "sha256", sum), SHA256: sum} // of a SHA-512, the name is longer
	there, intact, err := intactFile(ctx, kept)
	if err == nil && (!intact || size != 0 && size != there) {
		there, err = c.fetch(kept, resume)
	}
	if err != nil {
		return Kept{}, err
	}
	kept.Size = there
	return kept, nil
}

// intactFile says whether the cache has a file with the right sum. A damaged file
// is removed.
func intactFile(ctx context.Context, kept Kept) (size int64, intact bool, err error) {
	file, err := os.Open(kept.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("reading the cache: %w", err)
	}
	defer file.Close()
	hash := hashOf(kept.SHA256)
	if size, err = io.Copy(hash, expand.Until(ctx, file)); err != nil {
		return 0, false, fmt.Errorf("reading the cache: %w", err)
	}
	if hex.EncodeToString(hash.Sum(nil)) == kept.SHA256 {
		return size, true, nil
	}
	if err := os.Remove(kept.Path); err != nil {
		return 0, false, fmt.Errorf("removing a damaged file of the cache: %w", err)
	}
	return 0, false, nil
}

// fetch fills a place in the cache and continues where an interrupted run stopped.
func (c *Cache) fetch(kept Kept, resume func(*os.File) (int64, error)) (size int64, err error) {
	file, err := c.partial(kept.SHA256)
	if err != nil {
		return 0, err
	}
	size, err = resume(file)
	var wrong *mismatchError
	if errors.As(err, &wrong) && wrong.resumed {
		// The part from the interrupted run may have been wrong: start from the
		// beginning.
		_, rewound := file.Seek(0, io.SeekStart)
		if err = errors.Join(file.Truncate(0), rewound); err == nil {
			size, err = resume(file)
		}
	}
	// Close before renaming: Windows does not rename an open file.
	err = errors.Join(err, file.Close())
	if errors.As(err, &wrong) {
		return 0, errors.Join(err, os.Remove(file.Name()))
	}
	if err != nil { // the next run continues from here
		return 0, errors.Join(err, os.Rename(file.Name(), c.partialName(kept.SHA256)))
	}
	if err := errors.Join(os.Chmod(file.Name(), 0o644), os.Rename(file.Name(), kept.Path)); err != nil {
		return 0, fmt.Errorf("keeping a download in the cache: %w", err)
	}
	return size, nil
}

// resume appends the missing bytes to a file and verifies the whole file.
func (c *Cache) resume(ctx context.Context, d Download, sum string, file *os.File,
	progress plan.Progress) (int64, error) {
	v := &verifier{download: d, hash: sha256.New(), want: sum, progress: progress}
	size, err := resume(ctx, file, v.hash, func(from int64) (content, error) {
		body, err := c.fetcher.open(ctx, d.URL, from)
		if err != nil {
			err = c.fetcher.explain(ctx, d, d.URL, err)
		}
		return body, err
	}, func(body content, from int64) io.Reader {
		v.body, v.done = body, from
		return v
	}, func(int64) error { return v.check() })
	if errors.Is(err, errTooLarge) {
		return 0, &mismatchError{error: err} // nothing of it is worth resuming
	}
	return size, err
}

// resume appends the missing bytes to a file of the cache. It hashes what is there, opens the
// content from there on, reads it through a reader that hashes too, and verifies the whole.
func resume(ctx context.Context, file *os.File, hash hash.Hash, open func(from int64) (content, error),
	through func(body content, from int64) io.Reader, verify func(size int64) error) (size int64, err error) {
	there, err := io.Copy(hash, expand.Until(ctx, file))
	if err != nil {
		return 0, fmt.Errorf("reading the cache: %w", err)
	}
	body, err := open(there)
	status, answered := errors.AsType[*statusError](err)
	if there > 0 && answered && status.code == http.StatusRequestedRangeNotSatisfiable { // its file ends there
		body, err = content{http.NoBody, -1}, nil
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	more, err := appendAll(file, through(body, there))
	if err != nil {
		return 0, err
	}
	if err := verify(there + more); err != nil {
		return 0, &mismatchError{err, there > 0}
	}
	return there + more, nil
}

// appendAll appends a download to a file of the cache. Errors of the download are
// returned unchanged; the others are the disk's.
func appendAll(file *os.File, from io.Reader) (size int64, err error) {
	var broken error
	size, err = io.CopyBuffer(onlyWriter{file}, readerFunc(func(p []byte) (int, error) {
		n, err := from.Read(p)
		if err != nil && !errors.Is(err, io.EOF) {
			broken = err
		}
		return n, err
	}), make([]byte, 256<<10))
	switch {
	case broken != nil:
		return 0, broken
	case err != nil:
		return 0, fmt.Errorf("writing to the cache: %w", explainWrite(err))
	}
	return size, nil
}

func (c *Cache) partialName(sum string) string { return filepath.Join(c.folder, "partial", sum) }

// abandoned is the age after which a run takes over a file that another process was
// filling. A running download writes every few seconds.
const abandoned = 10 * time.Minute

// partial opens the part of a file that an interrupted run left, or a new file. Its
// name belongs to this process alone.
func (c *Cache) partial(sum string) (*os.File, error) {
	if err := c.makeFolders(); err != nil {
		return nil, err
	}
	mine := c.partialName(sum) + "." + rand.Text()
	left, err := filepath.Glob(c.partialName(sum) + ".*")
	if err != nil {
		return nil, fmt.Errorf("looking for interrupted downloads: %w", err)
	}
	for _, name := range append([]string{c.partialName(sum)}, left...) {
		st, err := os.Stat(name)
		if err != nil || name != c.partialName(sum) && time.Since(st.ModTime()) < abandoned {
			continue // another process uses it, or it is gone
		}
		if os.Rename(name, mine) == nil { // the first process to rename the file owns it
			break
		}
	}
	file, err := os.OpenFile(mine, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening a file in the cache: %w", err)
	}
	return file, nil
}

func (c *Cache) makeFolders() error {
	for _, dir := range []string{"partial", "sha256"} {
		if err := os.MkdirAll(filepath.Join(c.folder, dir), 0o755); err != nil {
			return fmt.Errorf("making the cache's folder: %w", err)
		}
	}
	return nil
}

// mismatchError is a download with the wrong content.
type mismatchError struct {
	error
	resumed bool // part of it came from an earlier run
}

func (e *mismatchError) Unwrap() error { return e.error }

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// Wanted is a machine's request to the Packer host. It contains names and no
// addresses: a machine must not choose what the Packer host reads or fetches.
type Wanted struct {
	// Asset is the ID of the requested asset; empty when an image is requested.
	Asset string `json:"asset,omitempty"`
	// Image is one of the spec's images, with its digest. As is its name on the
	// machine.
	Image string `json:"image,omitempty"`
	As    string `json:"as,omitempty"`
}

// String is the request for messages.
func (w Wanted) String() string {
	if w.Image != "" {
		return "the image " + w.Image
	}
	return w.Asset
}

// Supplied is the answer to a request. The caller reads it to its end and closes
// it.
type Supplied struct {
	io.ReadCloser `json:"-"`
	Size          int64  `json:"size"` // bytes
	SHA256        string `json:"sha256"`
	// Digest is the digest of an image's manifest for the machine.
	Digest string `json:"digest,omitempty"`
}

// Supply delivers files that a machine does not fetch itself.
type Supply interface {
	Supply(ctx context.Context, w Wanted) (*Supplied, error)
}

// FromSupply makes a Source of a Supply. The content is compared with the pins of
// the spec, as for every source.
func FromSupply(s Supply) Source { return supplied{s} }

type supplied struct{ Supply }

func (s supplied) begin(ctx context.Context, d Download) (content, string, error) {
	got, err := s.Supply.Supply(ctx, Wanted{Asset: d.ID})
	if err != nil {
		return content{}, "", err
	}
	if d.SHA256 != "" && got.SHA256 != d.SHA256 {
		return content{}, "", errors.Join(fmt.Errorf("verifying %s: the Packer host sends the SHA-256 %s, but %s is "+
			"pinned; nothing was installed", d, got.SHA256, d.SHA256), got.Close())
	}
	return content{got, got.Size}, got.SHA256, nil
}
