//go:build !agent

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/ami/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

// export holds the flags of `eksnode ami export`.
type export struct {
	aws    awsapi.Options
	output string
	force  bool
}

func amiExportCommand() *cobra.Command {
	var e export
	cmd := newCommand("export SOURCE FILE", named("an AMI or a snapshot, and a file", 2), e.run)
	formatFlag(cmd, &e.output, "text", "json")
	bind(cmd, targets{"force": &e.force})
	awsFlags(cmd, &e.aws)
	policyFlag(cmd, anywhere(awsapi.SnapshotReadPolicy))
	return cmd
}

// exported is what `eksnode ami export --output json` prints.
type exported struct {
	File string `json:"file"`
	// Size is the size of the disk in bytes, and Used that of the snapshot's blocks.
	Size     int64  `json:"size"`
	Used     int64  `json:"used"`
	Fetched  int64  `json:"fetched"`
	AMI      string `json:"ami,omitempty"`
	Snapshot string `json:"snapshot"`
	Region   string `json:"region"`
	// Digest is the content digest, or empty if the partitions cannot be read.
	Digest string `json:"digest,omitempty"`
}

func (e *export) run(cmd *cobra.Command, args []string) error {
	file := args[1]
	from, err := snapshot.ParseNamed(args[0])
	if err == nil {
		err = e.check(file)
	}
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	volume, err := from.Locate(ctx, e.aws)
	if err != nil {
		return err
	}
	began, m := time.Now(), newMeter(cmd.ErrOrStderr())
	sums, fetched, err := m.download(cmd, volume, file)
	if err != nil {
		err = fmt.Errorf("exporting %s: %w", volume, volume.Explain(err, "name a file on another disk"))
		if _, missing := os.Stat(file + ".part"); missing == nil {
			err = fmt.Errorf("%w; %w", err, fmt.Errorf("the same command continues with %s.part", file))
		}
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	out := exported{file, info.Size(), snapshot.Bytes(len(sums)), fetched, volume.Image.ID, volume.Snapshot,
		volume.AWS.Region, ""}
	if out.Digest, err = digestOf(ctx, file); err != nil {
		newPrinter(cmd.ErrOrStderr()).line("no digest: %v", err)
	}
	return answer(cmd, e.output, out, func(p *printer) {
		p.line("%s is %s: a disk of %d GiB with %s (%s), %s fetched in %s", shown(file), volume, out.Size>>30,
			show.Count(len(sums), "block"), show.Size(out.Used), show.Size(fetched), show.Length(time.Since(began)))
		if out.Digest != "" {
			p.line("digest: %s", out.Digest)
		}
		p.line("for qcow2: %s", disk.ToQcow2(file))
	})
}

func digestOf(ctx context.Context, file string) (string, error) {
	image, err := disk.Open(file)
	if err != nil {
		return "", err
	}
	defer image.Close()
	digest, err := image.Digest(ctx)
	return digest, errors.Join(err, image.Check())
}

// otherFormats are the endings of files that are no raw disks.
var otherFormats = []string{".qcow2", ".qcow", ".vmdk", ".vhd", ".vhdx", ".vdi", ".ova", ".gz", ".xz", ".zst"}

// check checks the file before any call to AWS.
func (e *export) check(file string) error {
	if ending := strings.ToLower(filepath.Ext(file)); slices.Contains(otherFormats, ending) {
		return fmt.Errorf("%s: an export is a raw disk, not %s; name the file .raw, and convert it afterwards, for "+
			"example with qemu-img convert", shown(file), ending)
	}
	info, err := os.Lstat(file)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file; name a new file", shown(file))
	case err == nil && !e.force:
		return fmt.Errorf("%s exists; name another file, or replace this one with --force", shown(file))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("checking the file to write: %w", err)
	}
	folder := filepath.Dir(file)
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return fmt.Errorf("there is no folder %s", shown(folder))
	}
	return surface.MayCreate(file)
}

// download writes the disk to the file, and returns the checksums of its blocks and the
// number of bytes that were read from AWS now.
func (m *meter) download(cmd *cobra.Command, volume snapshot.Root, file string) (snapshot.Sums, int64, error) {
	var mutex sync.Mutex
	var fetched int
	sums, err := snapshot.Download{Progress: func(p snapshot.Progress) {
		mutex.Lock()
		fetched = max(fetched, p.Sent)
		mutex.Unlock()
		m.upload(p)
	}}.Run(cmd.Context(), volume.AWS, volume.Snapshot, file)
	m.end()
	return sums, snapshot.Bytes(fetched), err
}

// diskCache is the cache of the disks of snapshots, below the folder for downloads.
func diskCache(local provisioner.Local, m *meter) (snapshot.Cache, error) {
	folder, err := local.Cache()
	if err != nil {
		return snapshot.Cache{}, err
	}
	return snapshot.Cache{
		Folder: filepath.Join(folder, "snapshots"), Download: snapshot.Download{Progress: m.upload}, Say: m.say,
	}, nil
}
