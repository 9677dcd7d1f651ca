package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// Changes are the blocks that differ between two snapshots of one lineage.
type Changes struct {
	// First and Second are the IDs of the snapshots.
	First, Second string
	// Changed and Added are blocks of the second snapshot, and Removed are those that
	// only the first one has.
	Changed, Added, Removed []int32
}

// Compare lists the blocks that differ. awsapi.IsUnrelated tells that the snapshots are
// not of one lineage.
func Compare(ctx context.Context, a *awsapi.AWS, first, second string) (Changes, error) {
	c := Changes{First: first, Second: second}
	var both []awsapi.Snapshot
	for _, id := range []string{first, second} {
		s, err := a.Snapshot(ctx, id)
		if err == nil {
			err = s.Readable(a.Region)
		}
		if err != nil {
			return c, err
		}
		both = append(both, s)
	}
	list, err := a.ChangedBlocks(ctx, first, second)
	for _, b := range list {
		switch {
		case b.Token == "":
			c.Removed = append(c.Removed, b.Index)
		case b.First == "":
			c.Added = append(c.Added, b.Index)
		default:
			c.Changed = append(c.Changed, b.Index)
		}
	}
	if err == nil {
		return c, nil
	}
	// AWS does not say about which of them it complains.
	culprit := both[0]
	if both[1].Owner != both[0].Owner || both[1].Encrypted && !both[0].Encrypted {
		culprit = both[1]
		if account, unknown := a.Account(ctx); unknown == nil && both[0].Owner != account {
			culprit = both[0]
		}
	}
	return c, refused(ctx, a, culprit, err)
}

// Update writes the second snapshot to a new sparse file. It copies the blocks of the
// first snapshot that did not change from a file with the first snapshot, and fetches
// only the others. Sums has the blocks of the first snapshot.
func (d Download) Update(ctx context.Context, a *awsapi.AWS, c Changes, from string, sums Sums, path string) error {
	s, err := a.Snapshot(ctx, c.Second)
	if err != nil {
		return err
	}
	err = d.update(ctx, a, c, from, sums, path+".part", s.Size<<30)
	if err == nil {
		err = os.Rename(path+".part", path)
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	_ = os.Remove(path + ".part") // err is the first error
	return fmt.Errorf("downloading the changes from the snapshot %s to %s: %w", c.First, c.Second, refused(ctx, a, s, err))
}

func (d Download) update(ctx context.Context, a *awsapi.AWS, c Changes, from string, sums Sums, path string, size int64) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = out.Truncate(size)
	if err == nil {
		err = copyBlocks(ctx, out, in, c.unchanged(sums))
	}
	if err == nil {
		err = d.fetch(ctx, a, c, out)
	}
	return errors.Join(err, out.Close())
}

// unchanged are the blocks of the first snapshot that the second one has, too.
func (c Changes) unchanged(sums Sums) []int32 {
	rest := maps.Clone(sums)
	for _, index := range slices.Concat(c.Changed, c.Added, c.Removed) {
		delete(rest, index)
	}
	return slices.Sorted(maps.Keys(rest))
}

// copyBlocks copies blocks between files. Linux shares their space where the file
// system can do that.
func copyBlocks(ctx context.Context, out, in *os.File, blocks []int32) error {
	for _, index := range blocks {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		for _, f := range []*os.File{in, out} {
			if _, err := f.Seek(int64(index)*BlockSize, io.SeekStart); err != nil {
				return err
			}
		}
		if _, err := io.CopyN(out, in, BlockSize); err != nil {
			return err
		}
	}
	return nil
}

// fetch reads the blocks that changed into a file.
func (d Download) fetch(ctx context.Context, a *awsapi.AWS, c Changes, out *os.File) error {
	missing, mutex := map[int32]bool{}, sync.Mutex{}
	for _, index := range slices.Concat(c.Changed, c.Added) {
		missing[index] = true
	}
	total := len(missing)
	wanted := func(index int32) bool {
		mutex.Lock()
		defer mutex.Unlock()
		return missing[index]
	}
	f := newFetch(a, c.Second, d.Connections, d.Rate)
	err := f.each(ctx, wanted, func(ctx context.Context, b awsapi.Block, data []byte) error {
		if _, err := f.get(ctx, b, data); err != nil {
			return err
		}
		if _, err := out.WriteAt(data, int64(b.Index)*BlockSize); err != nil {
			return err
		}
		mutex.Lock()
		defer mutex.Unlock()
		delete(missing, b.Index)
		if done := total - len(missing); d.Progress != nil {
			d.Progress(Progress{Read: done, Total: total, Sent: done})
		}
		return nil
	})
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("AWS does not list %d of the %d blocks that changed", len(missing), total)
	}
	return err
}
