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
		Parent: r.Spec.ParentSnapshot, Journal: filepath.Join(r.Folder, r.journal(source.Path)), Keep: r.Spec.Keep, Progress: r.Progress,
	}
	if u.Parent != "" {
		if u.ParentSums, err = r.parentSums(ctx, source.Blocks); err != nil {
			return err
		}
	}
	if r.result.Upload, err = u.Run(ctx, r.aws, source.Source); err != nil {
		return fmt.Errorf("uploading the disk %s: %w", r.Disk, err)
	}
	id := r.result.Upload.Snapshot.ID
	if err := r.result.Upload.Sums.Save(r.sumsFile(id), id); err != nil {
		r.Say("%v; an import with the parent %s will read the snapshot instead", err, id)
	}
	return nil
}

// journal is the name of the file that lets an interrupted upload go on: one for each
// disk, region and AMI.
func (r *run) journal(disk string) string {
	sum := sha256.Sum256([]byte(disk + "\x00" + r.Spec.Name))
	return fmt.Sprintf("%s-%x%s", r.aws.Region, sum[:8], journalSuffix)
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
	for _, suffix := range []string{journalSuffix, sumsSuffix} {
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

// source is a disk for the upload.
type source struct {
	snapshot.Source
	// Path is the absolute path of the disk.
	Path string
}

func (r *run) source() (source, error) {
	info, err := os.Stat(r.Disk)
	if err != nil {
		return source{}, fmt.Errorf("reading the disk: %w", err)
	}
	path, err := filepath.Abs(r.Disk)
	if err != nil {
		return source{}, fmt.Errorf("finding the path of the disk %s: %w", r.Disk, err)
	}
	s := source{Path: path, Source: snapshot.Source{
		Identity: fmt.Sprintf("%s, %d bytes, changed %s", path, info.Size(), info.ModTime().UTC().Format(time.RFC3339Nano)), Size: r.image.SizeGiB(), Check: r.image.Check,
		Read: func(index int32, into []byte) error {
			at := int64(index) * disk.BlockSize
			if _, err := r.image.ReadAt(into, at); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			r.layout.ZeroFree(into, at)
			return nil
		},
	}}
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
