package snapshot

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

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

// Update writes the second snapshot to a new sparse file, as Run does. It copies the blocks
// of the first snapshot that did not change from a file with the first snapshot, and fetches
// only the others. Sums has the blocks of the first snapshot.
func (d Download) Update(ctx context.Context, a *awsapi.AWS, c Changes, from string, sums Sums, path string) error {
	same := maps.Clone(sums)
	for _, index := range slices.Concat(c.Changed, c.Added, c.Removed) {
		delete(same, index)
	}
	_, err := d.run(ctx, a, c.Second, path, func(run *download) error {
		in, err := os.Open(from)
		if err != nil {
			return err
		}
		defer in.Close()
		run.inherited = same
		return copyBlocks(ctx, run.file, in, slices.Sorted(maps.Keys(same)))
	})
	if err == nil {
		return nil
	}
	for _, end := range []string{".part", ".journal"} {
		_ = os.Remove(path + end) // err is the first error
	}
	return fmt.Errorf("updating the disk of the snapshot %s: %w", c.First, err)
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
