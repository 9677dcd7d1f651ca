package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// cache is a folder of complete folders. An entry is made in a temporary folder
// and renamed, so that it exists completely or not at all.
type cache struct {
	folder string
}

// entry returns the folder of the given key. If there is none, it calls fill
// with an empty folder, and keeps the folder under the key when fill succeeds.
// If several processes need the same key, one fills it. The others wait, and
// write to log that they do.
func (c cache) entry(ctx context.Context, key string, log io.Writer, fill func(folder string) error) (string, error) {
	final := filepath.Join(c.folder, key)
	if there, err := exists(final); there || err != nil {
		return final, err
	}
	if err := os.MkdirAll(c.folder, 0o755); err != nil {
		return "", fmt.Errorf("making the cache folder: %w", err)
	}
	unlock, err := lock(ctx, final+".lock", log)
	if err != nil {
		return "", err
	}
	defer unlock()
	// Another process may have filled the folder while this one waited.
	if there, err := exists(final); there || err != nil {
		return final, err
	}
	if err := c.sweep(key); err != nil {
		return "", err
	}
	temporary, err := os.MkdirTemp(c.folder, unfinished(key))
	if err != nil {
		return "", fmt.Errorf("making a temporary folder: %w", err)
	}
	defer os.RemoveAll(temporary)
	if err := fill(temporary); err != nil {
		return "", err
	}
	if err := os.Chmod(temporary, 0o755); err != nil {
		return "", fmt.Errorf("opening the finished folder to readers: %w", err)
	}
	if err := os.Rename(temporary, final); err != nil {
		return "", fmt.Errorf("keeping the finished folder: %w", err)
	}
	return final, nil
}

// sweep removes the partial folders of a killed process for key. The caller
// holds the key's lock, so no other process uses them.
func (c cache) sweep(key string) error {
	left, err := filepath.Glob(filepath.Join(c.folder, unfinished(key)))
	if err != nil {
		return fmt.Errorf("looking for unfinished folders: %w", err)
	}
	for _, folder := range left {
		if err := os.RemoveAll(folder); err != nil {
			return fmt.Errorf("removing an unfinished folder: %w", err)
		}
	}
	return nil
}

// unfinished is the pattern, for both os.MkdirTemp and filepath.Glob, of the
// temporary folders for key.
func unfinished(key string) string { return "." + key + ".*" }

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// lock takes an exclusive lock on the file at path, which it makes, and returns
// a function that releases the lock. The kernel releases it when the process
// dies, so an existing lock file has no meaning.
func lock(ctx context.Context, path string, log io.Writer) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	for waited := false; ; waited = true {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			file.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		if !waited {
			fmt.Fprintf(log, "waiting for another process that holds %s\n", path)
		}
		select {
		case <-ctx.Done():
			file.Close()
			return nil, fmt.Errorf("waiting for the lock %s: %w", path, context.Cause(ctx))
		case <-retry.C:
		}
	}
}
