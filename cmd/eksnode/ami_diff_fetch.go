//go:build !agent

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/diskdiff"
	"github.com/eksnode/packer-plugin-eksnode/internal/snapshot"
)

// fetch writes the disks of AMIs and snapshots to files. Of two snapshots of one
// lineage, only the changed blocks of the second one are read.
func (d *diskComparison) fetch(ctx context.Context) error {
	said := newPrinter(d.cmd.ErrOrStderr())
	say := func(format string, args ...any) { d.meter.say(func() { said.line(format, args...) }) }
	var err error
	if d.cache, err = diskCache(d.local, d.meter, say); err != nil {
		return err
	}
	changes, err := d.changes(ctx)
	if err != nil {
		return err
	}
	if changes == nil {
		return d.fetchWhole(ctx, say)
	}
	d.found.Blocks = diskdiff.Blocks{By: diskdiff.ByLineage, Changed: len(changes.Changed), Added: len(changes.Added), Removed: len(changes.Removed)}
	say("blocks: %s", d.found.Blocks)
	return d.fetchChanges(ctx, say, *changes)
}

// changes lists the changed blocks of two snapshots of one lineage. They are nil if the
// disks are none. A lineage is in one region, with one encryption.
func (d *diskComparison) changes(ctx context.Context) (*snapshot.Changes, error) {
	first, second := d.sides[0].volume, d.sides[1].volume
	if first.aws == nil || second.aws == nil || first.aws.Region != second.aws.Region {
		return nil, nil
	}
	if encrypted, err := d.encryption(ctx); err != nil || encrypted[0] != encrypted[1] {
		return nil, err
	}
	c, err := snapshot.Compare(ctx, first.aws, first.snapshot, second.snapshot)
	if awsapi.IsUnrelated(err) {
		return nil, nil
	}
	return &c, err
}

// encryption returns the KMS keys of the snapshots, or none for those without encryption.
func (d *diskComparison) encryption(ctx context.Context) (keys [2]string, err error) {
	for n, side := range d.sides {
		s, err := side.volume.aws.Snapshot(ctx, side.volume.snapshot)
		if err != nil {
			return keys, fmt.Errorf("comparing %s: %w", side.volume, side.volume.explain(err, "--cache-folder"))
		}
		if s.Encrypted {
			keys[n] = "encrypted with " + s.Key
		}
	}
	return keys, nil
}

// fetchWhole reads whole disks, in the order of their IDs: two commands that waited for
// each other's snapshots would never end.
func (d *diskComparison) fetchWhole(ctx context.Context, say func(string, ...any)) error {
	sorted := slices.SortedFunc(slices.Values(d.sides[:]), func(a, b *comparedDisk) int {
		return strings.Compare(a.volume.snapshot, b.volume.snapshot)
	})
	for _, s := range sorted {
		if s.cloud == nil {
			continue
		}
		if _, err := d.get(ctx, s, say); err != nil {
			return err
		}
	}
	return nil
}

// fetchChanges reads the first disk, and makes the second one from a copy and from the
// blocks that changed.
func (d *diskComparison) fetchChanges(ctx context.Context, say func(string, ...any), c snapshot.Changes) error {
	first, second := d.sides[0], d.sides[1]
	kept, err := d.get(ctx, first, say)
	if err != nil {
		return err
	}
	second.path = filepath.Join(filepath.Dir(kept.Path), c.Second+".raw")
	say("reading the changes of %s", second.volume)
	if err := d.cache.Download.Update(ctx, second.volume.aws, c, kept.Path, kept.Sums, second.path); err != nil {
		return fmt.Errorf("comparing %s: %w", second.volume, second.volume.explain(err, "--cache-folder"))
	}
	d.closers = append(d.closers, func() error { return os.Remove(second.path) })
	return nil
}

// get reads a whole disk.
func (d *diskComparison) get(ctx context.Context, s *comparedDisk, say func(string, ...any)) (*snapshot.Disk, error) {
	say("reading %s", s.volume)
	kept, err := d.cache.Get(ctx, s.volume.aws, s.volume.snapshot)
	d.meter.end()
	if err != nil {
		return nil, fmt.Errorf("comparing %s: %w", s.volume, s.volume.explain(err, "--cache-folder"))
	}
	s.path = kept.Path
	d.closers = append(d.closers, func() error { return kept.Close(false) })
	return kept, nil
}
