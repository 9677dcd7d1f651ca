package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
)

// Cache keeps the disks of snapshots, with a folder for each snapshot. Only the owner
// of the folder can read them: a disk can have secrets, and is not encrypted.
type Cache struct {
	Folder   string
	Download Download
	// Say prints a line for a person who waits.
	Say func(format string, args ...any)
}

// Disk is the disk of a snapshot in a cache. No other process uses the disk until
// Close.
type Disk struct {
	// Path is a sparse file with the size of the volume.
	Path string
	// Sums are the checksums of the snapshot's blocks.
	Sums Sums
	lock *os.File
}

// lockPause is the pause between two attempts to lock a snapshot.
const lockPause = 200 * time.Millisecond

// Get returns the disk of a snapshot. A disk that the cache has is verified by its
// checksums, because a snapshot never changes. Otherwise the disk is downloaded, or an
// interrupted download goes on.
func (c Cache) Get(ctx context.Context, a *awsapi.AWS, id string) (*Disk, error) {
	s, err := a.Snapshot(ctx, id)
	if err != nil {
		return nil, err
	}
	d, err := c.lock(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("locking the cache of the snapshot %s: %w", id, err)
	}
	d.Sums, err = verified(ctx, d.Path, s)
	switch {
	case err == nil:
		return d, nil
	case ctx.Err() != nil:
		return nil, errors.Join(context.Cause(ctx), d.unlock())
	case !errors.Is(err, fs.ErrNotExist):
		c.Say("%v; the snapshot %s is downloaded again", err, id)
	}
	err = d.remove()
	if err == nil {
		if d.Sums, err = c.Download.Run(ctx, a, id, d.Path); interrupted(d.Path, err) {
			err = fmt.Errorf("%w; the next run reads the rest", err)
		}
	}
	if err == nil {
		err = d.Sums.Save(d.sums(), id, "")
	}
	if err != nil {
		return nil, errors.Join(err, d.unlock())
	}
	return d, nil
}

// interrupted says whether a failed download left something to go on with.
func interrupted(path string, err error) bool {
	_, missing := os.Stat(path + ".part")
	return err != nil && missing == nil
}

// Close gives the disk back and, unless keep is set, removes it from the cache.
func (d *Disk) Close(keep bool) error {
	var err error
	if !keep {
		err = d.remove()
	}
	return errors.Join(err, d.unlock())
}

func (d *Disk) sums() string { return d.Path + ".sums" }

// remove removes the files of a disk. Those of an interrupted download stay.
func (d *Disk) remove() error {
	var errs []error
	for _, path := range []string{d.Path, d.sums()} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// unlock ends the use of the disk and removes an empty folder.
func (d *Disk) unlock() error {
	_ = os.Remove(filepath.Dir(d.Path)) // fails when there are files in the folder
	return removeLocked(d.lock)
}

// lock locks a snapshot and waits for another process that has the lock.
func (c Cache) lock(ctx context.Context, id string) (*Disk, error) {
	name := filepath.Join(c.Folder, id)
	if err := makeFolder(c.Folder); err != nil {
		return nil, err
	}
	for said := false; ; said = true {
		lock, err := lockedFile(name + ".lock")
		if err == nil {
			d := &Disk{Path: filepath.Join(name, "disk.raw"), lock: lock}
			if err := os.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
				return nil, errors.Join(err, d.unlock())
			}
			return d, nil
		}
		if !errors.Is(err, errInUse) {
			return nil, err
		}
		if !said {
			c.Say("another eksnode uses the snapshot %s in %s; waiting for its end", id, c.Folder)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lockPause):
		}
	}
}

// makeFolder makes a folder and its parents. Under sudo, a new folder gets the owner of
// its parent: the folder may be in the cache of a person, who needs the cache later
// without sudo.
func makeFolder(path string) error {
	parent := filepath.Dir(path)
	if _, err := os.Stat(parent); errors.Is(err, fs.ErrNotExist) && parent != path {
		if err := makeFolder(parent); err != nil {
			return err
		}
	}
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = giveOwner(path, parent)
	}
	return err
}

// verified returns the checksums of the disk of a snapshot after it has compared them
// with the disk. What the checksums do not list must be zeros.
func verified(ctx context.Context, path string, of awsapi.Snapshot) (Sums, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sums, err := LoadSums(path+".sums", of.ID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the disk %s has no checksums", path)
	}
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || info.Size() != of.Size<<30 {
		return nil, fmt.Errorf("the disk %s does not have the %d GiB of its snapshot", path, of.Size)
	}
	if err := sums.verify(ctx, f); err != nil {
		return nil, fmt.Errorf("verifying the disk %s: %w", path, err)
	}
	return sums, nil
}

// verify compares a disk with the checksums of its blocks.
func (s Sums) verify(ctx context.Context, f *os.File) error {
	block := make([]byte, BlockSize)
	for _, index := range slices.Sorted(maps.Keys(s)) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, err := f.ReadAt(block, int64(index)*BlockSize); err != nil {
			return err
		}
		if sha256.Sum256(block) != s[index] {
			return damaged(index)
		}
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	for _, r := range disk.Written(f, info.Size()) {
		for index := int32(r.Offset / BlockSize); Bytes(int(index)) < r.End(); index++ {
			if _, listed := s[index]; listed {
				continue
			}
			clear(block)
			if _, err := f.ReadAt(block, Bytes(int(index))); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			if !bytes.Equal(block, zeros) {
				return damaged(index)
			}
		}
	}
	return nil
}

func damaged(index int32) error { return fmt.Errorf("the block %d does not match its checksum", index) }
