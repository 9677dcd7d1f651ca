//go:build !agent

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/ami/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskaudit"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskdiff"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/page"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

// source is a disk that a person named: a file, or the root volume of an AMI or a
// snapshot.
type source struct {
	arg    string
	cloud  *snapshot.Named // nil for a file
	volume snapshot.Root
	// path is the file with the disk. The disk of a volume has one after the download.
	path string
}

// comparedDisk is one of the two disks of a comparison.
type comparedDisk struct {
	*source
	diskdiff.Disk
}

type diskComparison struct {
	*comparison
	cmd   *cobra.Command
	sides [2]*comparedDisk
	cache snapshot.Cache
	meter *meter
	// keep keeps the first disk in the cache folder.
	keep bool
	// closers run in the reverse order.
	closers []func() error
	found   diskDifferences
}

// diskDifferences is what `eksnode ami diff --disk --output json` prints.
type diskDifferences struct {
	// Facts are what AWS says about two AMIs.
	Facts []difference `json:"facts"`
	// Digests are the content digests, or empty for two times the same snapshot.
	Digests []string `json:"digests,omitempty"`
	diskdiff.Result
	Notes []string `json:"notes"`
}

func newComparison(cmd *cobra.Command, c *comparison) *diskComparison {
	found := diskDifferences{Facts: []difference{}, Result: diskdiff.None(), Notes: []string{}}
	return &diskComparison{comparison: c, cmd: cmd, meter: newMeter(cmd.ErrOrStderr()), found: found}
}

func (d *diskComparison) close(err *error) {
	for n := len(d.closers) - 1; n >= 0; n-- {
		*err = errors.Join(*err, d.closers[n]())
	}
}

// compareDisks compares two disks. Whatever can fail without the disks fails before
// the download.
func (c *comparison) compareDisks(cmd *cobra.Command, args []string) (err error) {
	d := newComparison(cmd, c)
	defer d.close(&err)
	if err := errors.Join(d.choose(args...), mayMount("comparing disks")); err != nil {
		return err
	}
	for _, s := range d.sides {
		if s.cloud == nil {
			if err := d.open(s); err != nil {
				return err
			}
		}
	}
	if err := d.find(cmd.Context()); err != nil {
		return err
	}
	return d.run(cmd.Context(), args)
}

func (d *diskComparison) choose(args ...string) error {
	for n, arg := range args {
		s, err := parseSource(arg)
		if err != nil {
			return err
		}
		d.sides[n] = &comparedDisk{source: s}
	}
	return nil
}

func parseSource(arg string) (*source, error) {
	if !snapshot.IsNamed(arg) {
		return &source{arg: arg, path: arg}, isDisk(arg)
	}
	cloud, err := snapshot.ParseNamed(arg)
	return &source{arg: arg, cloud: &cloud}, err
}

// explain adds the disk to an error, and what to do.
func (s *source) explain(doing string, err error) error {
	return fmt.Errorf("%s %s: %w", doing, s.volume, s.volume.Explain(err, "choose another folder with --cache-folder"))
}

// mayMount fails where nobody, or not this person, may mount a disk.
func mayMount(doing string) error {
	err := diskaudit.Ready()
	if errors.Is(err, diskaudit.ErrNeedsRoot) {
		err = fmt.Errorf("%w; sudo -E keeps the AWS credentials of the environment", err)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", doing, err)
	}
	return err
}

// isDisk refuses a manifest, which would be a disk without partitions.
func isDisk(path string) error {
	f, err := surface.Open(path)
	if err != nil {
		return fmt.Errorf("opening the disk image: %w", err)
	}
	defer f.Close()
	text := make([]byte, 64)
	n, err := io.ReadFull(f, text)
	if isJSON(text[:n]) {
		return fmt.Errorf("%s is a manifest, not a disk image; without --disk, diff compares manifests", shown(path))
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("reading the disk image: %w", err)
	}
	return nil
}

func isJSON(text []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) }

func (d *diskComparison) open(s *comparedDisk) (err error) {
	if s.Disk, err = diskdiff.Open(s.path, d.partition); err == nil {
		d.closers = append(d.closers, s.Image.Close)
	}
	return err
}

func (d *diskComparison) find(ctx context.Context) error {
	var regions []string
	for _, s := range d.sides {
		if s.cloud != nil {
			regions = append(regions, s.cloud.Region)
		}
	}
	if len(regions) == 0 {
		return nil
	}
	opened, err := d.regions.openFor(ctx, regions...)
	if err != nil {
		return err
	}
	for _, s := range d.sides {
		if s.cloud == nil {
			continue
		}
		if s.volume, err = volumeOf(ctx, opened, *s.cloud); err != nil {
			return err
		}
		if s.volume.Image.Platform == "windows" {
			return fmt.Errorf("comparing the image %s: the image is for Windows, and only Linux file systems are "+
				"compared", s.volume.Image.ID)
		}
		for _, other := range s.volume.Others {
			d.found.Notes = append(d.found.Notes, fmt.Sprintf("%s: the volume %s (%s) was not compared: only the "+
				"root volume %s was", s.arg, other.Name, other.Snapshot, s.volume.Image.RootDevice))
		}
	}
	return nil
}

func volumeOf(ctx context.Context, opened []*awsapi.AWS, c snapshot.Named) (snapshot.Root, error) {
	a := opened[0]
	switch {
	case c.Region != "":
		a = a.In(c.Region)
	case len(opened) > 1 && c.IsSnapshot():
		return snapshot.Root{}, fmt.Errorf("%s: several regions are open; name the region of the snapshot, such as "+
			"%s:%[1]s", c.ID, a.Region)
	case len(opened) > 1:
		i, err := find(ctx, opened, c)
		if err != nil {
			return snapshot.Root{}, err
		}
		a = a.In(i.Region)
	}
	return c.Find(ctx, a)
}

func (d *diskComparison) run(ctx context.Context, args []string) error {
	p := newPrinter(d.cmd.OutOrStdout())
	first, second := d.sides[0], d.sides[1]
	if first.volume.Image.ID != "" && second.volume.Image.ID != "" {
		d.found.Facts = differences([2]map[string]string{imageFacts(first.volume.Image),
			imageFacts(second.volume.Image)})
		if d.output == "text" {
			p.differences(args, d.found.Facts)
		}
	}
	if first.volume.Snapshot != "" && first.volume.Snapshot == second.volume.Snapshot {
		d.found.Blocks.By = diskdiff.ByLineage
		d.found.Notes = append(d.found.Notes, fmt.Sprintf("both disks are the snapshot %s", first.volume.Snapshot))
	} else if err := d.content(ctx); err != nil {
		return err
	}
	if err := d.report.write(differenceTitle(args), d.tables()...); err != nil {
		return err
	}
	return errors.Join(p.err, answer(d.cmd, d.output, d.found, d.print))
}

func (d *diskComparison) tables() []page.Table {
	packages := page.Table{Title: "Packages", Head: []string{"package", "before", "after"}}
	for _, k := range d.found.Packages {
		packages.Rows = append(packages.Rows, []string{k.Name, versionText(k.Before), versionText(k.After)})
	}
	files := page.Table{Title: "Files that no changed package explains",
		Head: []string{"file", "package", "difference"}}
	for _, f := range d.found.Files {
		if f.Group != diskdiff.OfChangedPackage {
			files.Rows = append(files.Rows, []string{f.Path, f.Package, fileChange(f)})
		}
	}
	return []page.Table{factTable(d.found.Facts), packages, files}
}

func fileChange(f diskdiff.File) string {
	switch {
	case f.Before == nil:
		return "added"
	case f.After == nil:
		return "removed"
	}
	return strings.Join(f.Differs, ", ")
}

func (d *diskComparison) content(ctx context.Context) error {
	err := d.fetch(ctx)
	d.meter.end()
	if err != nil {
		return err
	}
	for _, s := range d.sides {
		if s.cloud != nil {
			if err := d.open(s); err != nil {
				return s.explain("comparing", err)
			}
		}
	}
	first, second := d.sides[0].Disk, d.sides[1].Disk
	blocks := d.found.Blocks
	if blocks.By == "" {
		if blocks, err = diskdiff.CompareBlocks(ctx, first, second); err != nil {
			return err
		}
	}
	r, err := diskdiff.Compare(ctx, first, second, "")
	if err != nil {
		return err
	}
	for _, s := range d.sides {
		digest, err := s.Image.Digest(ctx)
		if err != nil {
			return err
		}
		d.found.Digests = append(d.found.Digests, digest)
	}
	for _, s := range d.sides { // a file that changed meanwhile
		if err := s.Image.Check(); err != nil {
			return err
		}
	}
	r.Blocks = blocks
	d.found.Result = r
	for n, root := range r.Roots {
		for _, note := range root.Notes {
			d.found.Notes = append(d.found.Notes, d.sides[n].arg+": "+note)
		}
	}
	return nil
}

// fetch writes the disks of AMIs and snapshots to files. Of two snapshots of one
// lineage, only the changed blocks of the second one are read.
func (d *diskComparison) fetch(ctx context.Context) error {
	var err error
	if d.cache, err = diskCache(d.local, d.meter); err != nil {
		return err
	}
	changes, err := d.changes(ctx)
	if err != nil {
		return err
	}
	if changes == nil {
		return d.fetchWhole(ctx)
	}
	d.found.Blocks = diskdiff.Blocks{By: diskdiff.ByLineage, Changed: len(changes.Changed), Added: len(changes.Added),
		Removed: len(changes.Removed)}
	d.meter.say("blocks: %s", d.found.Blocks)
	return d.fetchChanges(ctx, *changes)
}

// changes lists the changed blocks of two snapshots of one lineage. They are nil if the
// disks are none. A lineage is in one region, with one encryption.
func (d *diskComparison) changes(ctx context.Context) (*snapshot.Changes, error) {
	first, second := d.sides[0].volume, d.sides[1].volume
	if first.AWS == nil || second.AWS == nil || first.AWS.Region != second.AWS.Region {
		return nil, nil
	}
	if encrypted, err := d.encryption(ctx); err != nil || encrypted[0] != encrypted[1] {
		return nil, err
	}
	c, err := snapshot.Compare(ctx, first.AWS, first.Snapshot, second.Snapshot)
	if awsapi.IsUnrelated(err) {
		return nil, nil
	}
	return &c, err
}

// encryption returns the KMS keys of the snapshots, or none for those without encryption.
func (d *diskComparison) encryption(ctx context.Context) (keys [2]string, err error) {
	for n, side := range d.sides {
		s, err := side.volume.AWS.Snapshot(ctx, side.volume.Snapshot)
		if err != nil {
			return keys, side.explain("comparing", err)
		}
		if s.Encrypted {
			keys[n] = "encrypted with " + s.Key
		}
	}
	return keys, nil
}

// fetchWhole reads whole disks, in the order of their IDs: two commands that waited for
// each other's snapshots would never end.
func (d *diskComparison) fetchWhole(ctx context.Context) error {
	sorted := slices.SortedFunc(slices.Values(d.sides[:]), func(a, b *comparedDisk) int {
		return strings.Compare(a.volume.Snapshot, b.volume.Snapshot)
	})
	for _, s := range sorted {
		if s.cloud == nil {
			continue
		}
		if _, err := d.get(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// fetchChanges reads the first disk, and makes the second one from a copy and from the
// blocks that changed.
func (d *diskComparison) fetchChanges(ctx context.Context, c snapshot.Changes) error {
	first, second := d.sides[0], d.sides[1]
	kept, err := d.get(ctx, first)
	if err != nil {
		return err
	}
	second.path = filepath.Join(filepath.Dir(kept.Path), c.Second+".raw")
	d.meter.say("reading the changes of %s", second.volume)
	if err := d.cache.Download.Update(ctx, second.volume.AWS, c, kept.Path, kept.Sums, second.path); err != nil {
		return second.explain("comparing", err)
	}
	d.closers = append(d.closers, func() error { return os.Remove(second.path) })
	return nil
}

func (d *diskComparison) get(ctx context.Context, s *comparedDisk) (*snapshot.Disk, error) {
	d.meter.say("reading %s", s.volume)
	kept, err := d.cache.Get(ctx, s.volume.AWS, s.volume.Snapshot)
	d.meter.end()
	if err != nil {
		return nil, s.explain("comparing", err)
	}
	s.path = kept.Path
	d.closers = append(d.closers, func() error { return kept.Close(d.keep && s == d.sides[0]) })
	return kept, nil
}
