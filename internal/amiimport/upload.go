package amiimport

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
	"github.com/eksnode/packer-plugin-eksnode/internal/snapshot"
)

// defaultFolder is the folder for journals and checksums.
func defaultFolder() (string, error) {
	home, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the folder for the journal of the upload: %w", err)
	}
	return filepath.Join(home, "eksnode", "ami-import"), nil
}

// upload uploads the disk.
func (r *run) upload(ctx context.Context) error {
	source, err := r.source()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.Folder, 0o700); err != nil {
		return fmt.Errorf("making the folder for the journal of the upload: %w", err)
	}
	tidy(r.Folder, time.Now())
	u := snapshot.Upload{
		Description: r.Spec.Description, Tags: joined(r.Spec.Tags, r.Spec.SnapshotTags), Encrypted: r.Spec.Encrypt, Key: r.Spec.KMSKey,
		Parent: r.Spec.ParentSnapshot, Journal: r.journal, LeaveJournal: true, Keep: r.Spec.Keep, Say: r.Say,
	}
	if u.Parent != "" {
		if u.ParentSums, err = r.parentSums(ctx, source.Blocks); err != nil && !r.over(err) {
			return err
		}
	}
	if id := snapshot.Interrupted(r.journal); id != "" {
		r.Say("continuing with the snapshot %s of an interrupted import", id)
	}
	u.Progress = func(p snapshot.Progress) {
		if r.Progress != nil {
			r.Progress(p)
		}
		if p.Read == p.Total {
			r.Say("all blocks are there; waiting until the snapshot is completed")
		}
	}
	if r.result.Upload, err = u.Run(ctx, r.aws, source); err != nil {
		return fmt.Errorf("uploading the disk %s: %w", r.Disk, err)
	}
	id := r.result.Upload.Snapshot.ID
	if err := r.result.Upload.Sums.Save(r.sumsFile(id), id); err != nil {
		r.Say("%v; an import with the parent %s will read the snapshot instead", err, id)
	}
	return nil
}

// journalPath is the path of the file that lets an interrupted upload go on: one for
// each disk, region and AMI.
func (r *run) journalPath() (string, error) {
	path, err := filepath.Abs(r.Disk)
	if err != nil {
		return "", fmt.Errorf("finding the path of the disk %s: %w", r.Disk, err)
	}
	sum := sha256.Sum256([]byte(path + "\x00" + r.Spec.Name))
	return filepath.Join(r.Folder, fmt.Sprintf("%s-%x%s", r.aws.Region, sum[:8], journalSuffix)), nil
}

// forget removes the journal: the import is over.
func (r *run) forget() error {
	if err := os.Remove(r.journal); err != nil {
		return fmt.Errorf("removing the journal of the upload: %w", err)
	}
	return nil
}

// The ends of the names of files in the folder.
const (
	journalSuffix = ".journal"
	sumsSuffix    = ".sums"
)

func (r *run) sumsFile(id string) string { return filepath.Join(r.Folder, id+sumsSuffix) }

// unusedMost is how long a file stays in the folder without use.
const unusedMost = 90 * 24 * time.Hour

// tidy removes the files of old imports. A failure harms nothing.
func tidy(folder string, now time.Time) {
	for _, suffix := range []string{journalSuffix, sumsSuffix, replacedSuffix} {
		names, _ := filepath.Glob(filepath.Join(folder, "*"+suffix))
		for _, name := range names {
			if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() && now.Sub(info.ModTime()) > unusedMost {
				_ = os.Remove(name)
			}
		}
	}
}

// parentSums returns the checksums of the parent's blocks: from the file of the import
// that made the parent, or from the snapshot itself.
func (r *run) parentSums(ctx context.Context, blocks []int32) (snapshot.Sums, error) {
	name := r.sumsFile(r.Spec.ParentSnapshot)
	sums, err := snapshot.LoadSums(name, r.Spec.ParentSnapshot)
	if err == nil {
		now := time.Now()
		_ = os.Chtimes(name, now, now) // the file is in use
		return sums, nil
	}
	r.Say("reading the parent %s: %v", r.Spec.ParentSnapshot, err)
	return snapshot.ReadSums(ctx, r.aws, r.Spec.ParentSnapshot, blocks)
}

// source is the disk for the upload.
func (r *run) source() (snapshot.Source, error) {
	info, err := os.Stat(r.Disk)
	if err != nil {
		return snapshot.Source{}, fmt.Errorf("reading the disk: %w", err)
	}
	s := snapshot.Source{
		// The journal belongs to the path.
		Identity: fmt.Sprintf("%d bytes, changed %s", info.Size(), info.ModTime().UTC().Format(time.RFC3339Nano)), Size: r.image.SizeGiB(), Check: r.image.Check,
		Read: func(index int32, into []byte) error {
			at := int64(index) * disk.BlockSize
			if _, err := r.image.ReadAt(into, at); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			r.layout.ZeroFree(into, at)
			return nil
		},
	}
	for index := range r.layout.Blocks() {
		s.Blocks = append(s.Blocks, int32(index))
	}
	return s, nil
}

func joined(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, one := range all {
		maps.Copy(out, one)
	}
	return out
}
