package asset

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Blob returns the content with that SHA-256 and at most that many bytes. It comes
// from the cache or, verified, from open, which opens the content from a byte on.
// The cache keeps the part of an interrupted blob, and the next call fetches only
// the rest. A blob with a wrong sum is not kept.
func (c *Cache) Blob(ctx context.Context, sum string, most int64, open func(from int64) (io.ReadCloser, error)) (Kept, error) {
	kept := Kept{Path: filepath.Join(c.folder, "sha256", sum), SHA256: sum}
	size, intact, err := intactFile(ctx, kept)
	if err != nil || intact {
		kept.Size = size
		return kept, err
	}
	kept.Size, err = c.fetch(kept, func(file *os.File) (int64, error) { return resumeBlob(ctx, kept, most, file, open) })
	return kept, err
}

// resumeBlob is Cache.resume for a blob.
func resumeBlob(ctx context.Context, kept Kept, most int64, file *os.File, open func(from int64) (io.ReadCloser, error)) (size int64, err error) {
	hash := sha256.New()
	there, err := io.Copy(hash, interruptible{ctx, file})
	if err != nil {
		return 0, fmt.Errorf("reading the cache: %w", err)
	}
	body, err := open(there)
	if there > 0 && isBeyond(err) {
		body, err = empty{}, nil
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	more := &counter{from: io.TeeReader(io.LimitReader(interruptible{ctx, body}, most-there+1), hash)}
	if err := appendAll(file, more); err != nil {
		return 0, err
	}
	if there+more.bytes > most {
		return 0, &mismatchError{fmt.Errorf("verifying the blob sha256:%s: the content has more than %d bytes", kept.SHA256, most), there > 0}
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != kept.SHA256 {
		return 0, &mismatchError{fmt.Errorf("verifying the blob sha256:%s: the content has the SHA-256 %s", kept.SHA256, got), there > 0}
	}
	return there + more.bytes, nil
}

// counter counts the bytes read.
type counter struct {
	from  io.Reader
	bytes int64
}

// Read implements io.Reader.
func (c *counter) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.bytes += int64(n)
	return n, err
}

// Scratch makes a file in the cache's folder that is removed when it is closed.
func (c *Cache) Scratch() (*Scratch, error) {
	if err := c.makeFolders(); err != nil {
		return nil, err
	}
	c.sweep()
	file, err := os.OpenFile(filepath.Join(c.folder, "partial", "scratch."+rand.Text()), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
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
