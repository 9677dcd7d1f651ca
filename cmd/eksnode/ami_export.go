//go:build !agent

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
	"github.com/eksnode/packer-plugin-eksnode/internal/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

// export holds the flags of `eksnode ami export`.
type export struct {
	aws    awsapi.Options
	output string
	force  bool
	policy bool
}

func amiExportCommand() *cobra.Command {
	var e export
	cmd := &cobra.Command{
		Use:   "export SOURCE FILE",
		Short: "Write the disk of an AMI or a snapshot to a file, without an instance",
		Long: `SOURCE is an AMI ID, a snapshot ID, or either with its region, such as
eu-west-1:ami-0123456789abcdef0. Of an AMI, export reads the root volume. FILE
becomes a raw, sparse disk image that only you can read. An interrupted export
leaves FILE.part and FILE.journal, and the same command continues it.`,
		Example: `  eksnode ami export ami-0123456789abcdef0 node.raw --region eu-west-1
  eksnode ami export snap-0123456789abcdef0 node.raw
  eksnode ami export --policy`,
		Args: func(cmd *cobra.Command, args []string) error {
			if e.policy {
				return cobra.NoArgs(cmd, args)
			}
			return named("an AMI or a snapshot, and a file", 2)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if e.policy {
				return printText(cmd.OutOrStdout(), awsapi.SnapshotReadPolicy)
			}
			return e.run(cmd, args[0], args[1])
		},
	}
	formatFlag(cmd, &e.output, "text", "json")
	cmd.Flags().BoolVar(&e.force, "force", false, "replace FILE if there is one")
	awsFlags(cmd, &e.aws)
	cmd.Flags().BoolVar(&e.policy, "policy", false, "print the required IAM policy and exit")
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

func (e export) run(cmd *cobra.Command, source, file string) error {
	parse := parseCloudAMI
	if strings.Contains(source, "snap-") {
		parse = parseCloudSnapshot
	}
	from, err := parse(source)
	if err == nil {
		err = e.check(file)
	}
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	a, err := from.open(ctx, e.aws)
	if err != nil {
		return err
	}
	volume, err := from.find(ctx, a)
	if err != nil {
		return err
	}
	began, m := time.Now(), newMeter(cmd.ErrOrStderr())
	sums, fetched, err := m.download(cmd, volume, file)
	if err != nil {
		err = fmt.Errorf("exporting %s: %w", volume, volume.explain(err, "name a file on another disk"))
		if _, missing := os.Stat(file + ".part"); missing == nil {
			err = fmt.Errorf("%w; %w", err, fmt.Errorf("the same command continues with %s.part", file))
		}
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	out := exported{file, info.Size(), int64(len(sums)) * snapshot.BlockSize, fetched, volume.image.ID, volume.snapshot, volume.aws.Region, ""}
	if out.Digest, err = digestOf(ctx, file); err != nil {
		newPrinter(cmd.ErrOrStderr()).line("no digest: %v", err)
	}
	if e.output == "json" {
		return writeJSON(cmd.OutOrStdout(), out)
	}
	p := newPrinter(cmd.OutOrStdout())
	p.line("%s is %s: a disk of %d GiB with %s (%s), %s fetched in %s", shown(file), volume, out.Size>>30,
		show.Count(len(sums), "block"), show.Size(out.Used), show.Size(fetched), show.Length(time.Since(began)))
	if out.Digest != "" {
		p.line("digest: %s", out.Digest)
	}
	p.line("for qcow2: %s", disk.ToQcow2(file))
	return p.err
}

// digestOf returns the content digest of a disk image.
func digestOf(ctx context.Context, file string) (string, error) {
	image, err := disk.Open(file)
	if err != nil {
		return "", err
	}
	defer image.Close()
	layout, err := image.Layout()
	if err != nil {
		return "", err
	}
	digest, err := image.Digest(ctx, layout)
	return digest, errors.Join(err, image.Check())
}

// otherFormats are the endings of files that are no raw disks.
func otherFormats() []string {
	return []string{".qcow2", ".qcow", ".vmdk", ".vhd", ".vhdx", ".vdi", ".ova", ".gz", ".xz", ".zst"}
}

// check checks the file before any call to AWS.
func (e export) check(file string) error {
	if ending := strings.ToLower(filepath.Ext(file)); slices.Contains(otherFormats(), ending) {
		return fmt.Errorf("%s: an export is a raw disk, not %s; name the file .raw, and convert it afterwards, for example with qemu-img convert", shown(file), ending)
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
	return mayCreate(file, folder)
}

// download writes the disk to the file, and returns the checksums of its blocks and the
// number of bytes that were read from AWS now.
func (m *meter) download(cmd *cobra.Command, volume rootVolume, file string) (snapshot.Sums, int64, error) {
	var mutex sync.Mutex
	var fetched int
	sums, err := snapshot.Download{Progress: func(p snapshot.Progress) {
		mutex.Lock()
		fetched = max(fetched, p.Sent)
		mutex.Unlock()
		m.upload(p)
	}}.Run(cmd.Context(), volume.aws, volume.snapshot, file)
	m.end()
	return sums, int64(fetched) * snapshot.BlockSize, err
}

// cloudDisk names an AMI or a snapshot whose disk a command reads.
type cloudDisk struct {
	// region is the region of REGION:ID, or empty.
	region string
	// id is the ID of an AMI or a snapshot, or an AMI's parameter.
	id string
}

var withRegion = regexp.MustCompile(`^([a-z0-9-]+):((?:ami|snap)-.*)$`)

// parseCloudAMI checks the name of an AMI, with or without its region.
func parseCloudAMI(text string) (cloudDisk, error) {
	return parseCloudDisk(text, awsnames.Image)
}

// parseCloudSnapshot checks the name of a snapshot, with or without its region.
func parseCloudSnapshot(text string) (cloudDisk, error) {
	return parseCloudDisk(text, awsnames.SnapshotID().Check)
}

// parseCloudDisk splits REGION:ID. The region may be left out.
func parseCloudDisk(text string, check func(string) error) (cloudDisk, error) {
	parts := withRegion.FindStringSubmatch(text)
	if parts == nil {
		return cloudDisk{id: text}, check(text)
	}
	return cloudDisk{parts[1], parts[2]}, errors.Join(awsnames.Region().Check(parts[1]), check(parts[2]))
}

func (c cloudDisk) isSnapshot() bool { return strings.HasPrefix(c.id, "snap-") }

// open connects to the region of the disk, or to that of the flags.
func (c cloudDisk) open(ctx context.Context, o awsapi.Options) (*awsapi.AWS, error) {
	if c.region != "" && o.Region != "" && c.region != o.Region {
		return nil, fmt.Errorf("--region %s: %s:%s is in another region; leave one of them out", o.Region, c.region, c.id)
	}
	o.Region = cmp.Or(o.Region, c.region)
	return awsapi.Open(ctx, o)
}

// rootVolume is the snapshot of the root volume of an AMI, or a snapshot by itself.
type rootVolume struct {
	aws      *awsapi.AWS
	snapshot string
	// image is the AMI, or has no ID.
	image  awsapi.Image
	others []awsapi.BlockDevice
}

func (c cloudDisk) find(ctx context.Context, a *awsapi.AWS) (rootVolume, error) {
	if c.isSnapshot() {
		return rootVolume{aws: a, snapshot: c.id}, nil
	}
	i, err := a.Image(ctx, c.id)
	if awsapi.IsGone(err) {
		err = fmt.Errorf("%w; %s has no such AMI that this account may see: name another region with --region, or the snapshot of a deregistered AMI", err, a.Region)
	}
	if err != nil {
		return rootVolume{}, err
	}
	root, others, err := i.RootDisk()
	return rootVolume{a, root.Snapshot, i, others}, err
}

// explain adds what to do to an error about the snapshot. Elsewhere says how to write
// the disk elsewhere.
func (r rootVolume) explain(err error, elsewhere string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%w; make space, or %s", err, elsewhere)
	case !awsapi.IsGone(err):
		return err
	case r.image.ID == "":
		return fmt.Errorf("%w; %s has no such snapshot that this account may see: name another region with --region", err, r.aws.Region)
	}
	return fmt.Errorf("%w; the snapshot is deleted, or not shared by the account %s: copy the image, and name the copy: aws ec2 copy-image --region %s --source-region %[3]s --source-image-id %s --name NAME",
		err, r.image.Owner, r.aws.Region, r.image.ID)
}

// String describes the disk.
func (r rootVolume) String() string {
	if r.image.ID == "" {
		return fmt.Sprintf("the snapshot %s in %s", r.snapshot, r.aws.Region)
	}
	return fmt.Sprintf("the root volume %s of %s (%s in %s)", r.image.RootDevice, r.image.ID, r.snapshot, r.aws.Region)
}

// diskCache is the cache of the disks of snapshots, below the folder for downloads.
func diskCache(local provisioner.Local, m *meter, say func(format string, args ...any)) (snapshot.Cache, error) {
	folder, err := local.Cache()
	if err != nil {
		return snapshot.Cache{}, err
	}
	return snapshot.Cache{Folder: filepath.Join(folder, "snapshots"), Download: snapshot.Download{Progress: m.upload}, Say: say}, nil
}
