package diskbuild

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/internal/ami/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// Spec holds the options of a build.
type Spec struct {
	// Base image: a file, an http or https address, a name such as `debian-13`, or the ID of
	// an AMI or a snapshot. A file is a raw, qcow2 or VHD disk, or a folder or tar file with
	// a root.
	Base string `mapstructure:"base" required:"true"`
	// Architecture of the base image that a name, a folder or a tar file means: `amd64` or
	// `arm64`. Defaults to that of this machine.
	Arch string `mapstructure:"base_arch"`
	// SHA-256 or SHA-512 of the base image in hexadecimal. An address needs one.
	Checksum string `mapstructure:"base_checksum"`
	// Disk image to write: a file that ends in `.raw`, `.img` or `.qcow2`.
	Image string `mapstructure:"image" required:"true"`
	// Size of the disk in GiB. Defaults to that of the base image; 8 for a folder or
	// tar file.
	Size int `mapstructure:"disk_size"`
	// Number of the root partition. Defaults to the partition with the type, label or
	// content of a root.
	Partition int `mapstructure:"root_partition"`
	// File system of the disk that is made of a folder or tar file: `ext4` or `xfs`.
	// Defaults to `ext4`.
	FileSystem string `mapstructure:"root_file_system"`
}

// Validate checks the options, and nothing of this machine. It joins all problems.
func (s Spec) Validate() error {
	var f surface.Faults
	switch {
	case s.Base == "":
		f.When(true, "{base} is missing: name a disk image, or one of %s", strings.Join(distros.CloudImages(), ", "))
	case s.IsCloud():
		_, err := snapshot.ParseNamed(s.Base)
		f.Check("base", err)
		f.When(s.Checksum != "", "{base_checksum} is for files and addresses; EBS has checksums of its own")
	case s.isAddress():
		f.When(s.Checksum == "", "{base_checksum} is missing: give the SHA-256 or SHA-512 of %s; nothing is used "+
			"without one", asset.Place(s.Base))
	case !s.isFile():
		_, err := distros.CloudImageByName(s.Base, cmp.Or(s.Arch, runtime.GOARCH))
		f.Check("base", err)
		f.When(s.Checksum != "", "{base_checksum} is for files and addresses; %s is verified with the publisher's "+
			"checksum file: to pin one image, give its address as {base}", show.Quote(s.Base, 50))
	}
	if s.Checksum != "" {
		f.Check("base_checksum", asset.CheckDigest(s.Checksum))
	}
	f.When(s.Image == "", "{image} is missing: name the disk image to write, such as node.qcow2")
	f.When(s.Image != "" && !slices.Contains([]string{".raw", ".img", ".qcow2"}, filepath.Ext(s.Image)),
		"{image}: %s: the name of the disk image must end in .raw, .img or .qcow2", show.Quote(s.Image, 200))
	f.When(s.Size < 0 || s.Size > 65536, "{disk_size}: a disk of %d GiB: give a size from 1 to 65536", s.Size)
	f.When(!slices.Contains([]string{"", "amd64", "arm64"}, s.Arch), "{base_arch}: %s: give amd64 or arm64",
		show.Quote(s.Arch, 50))
	f.When(!slices.Contains([]string{"", "ext4", "xfs"}, s.FileSystem), "{root_file_system}: %s: give ext4 or xfs",
		show.Quote(s.FileSystem, 50))
	f.When(s.Partition < 0, "{root_partition}: there is no partition %d: give a number from 1", s.Partition)
	return f.Err()
}

func (s Spec) isQcow2() bool { return filepath.Ext(s.Image) == ".qcow2" }

func (s Spec) isAddress() bool {
	return strings.HasPrefix(s.Base, "https://") || strings.HasPrefix(s.Base, "http://")
}

func (s Spec) isFile() bool {
	_, err := os.Stat(s.Base)
	return err == nil || strings.ContainsRune(s.Base, filepath.Separator)
}

// IsCloud reports whether the base image is an AMI or a snapshot.
func (s Spec) IsCloud() bool { return snapshot.IsNamed(s.Base) && !s.isFile() }

// Download gets the base image of an AMI or a snapshot. The caller closes the disk.
func (s Spec) Download(ctx context.Context, o awsapi.Options,
	cache snapshot.Cache) (*snapshot.Disk, snapshot.Root, error) {
	n, err := snapshot.ParseNamed(s.Base)
	if err != nil {
		return nil, snapshot.Root{}, surface.Errorf("{base}: %w", err)
	}
	a, err := n.Open(ctx, o)
	if err != nil {
		return nil, snapshot.Root{}, err
	}
	root, err := n.Find(ctx, a)
	if err != nil {
		return nil, root, surface.Errorf("{base}: %w", err)
	}
	kept, err := cache.Get(ctx, a, root.Snapshot)
	if err != nil {
		return nil, root, surface.Errorf("{base}: %w", root.Explain(err, "choose another cache folder"))
	}
	return kept, root, nil
}

// Find returns the path of the base image, and its path or address for a person, which has no
// secrets. An image of a publisher is downloaded into the cache and verified.
func (s Spec) Find(ctx context.Context, cache string, say func(string),
	progress plan.Progress) (file, name string, err error) {
	from := asset.Base{URL: s.Base, Sum: s.Checksum}
	switch {
	case s.isAddress():
	case s.isFile():
		if info, statErr := os.Stat(s.Base); s.Checksum != "" && statErr == nil && info.IsDir() {
			return "", "", surface.Errorf("{base_checksum} is for files and addresses; the folder %s has none", s.Base)
		}
		if s.Checksum != "" {
			err = asset.CheckSum(ctx, s.Base, s.Checksum)
		}
		if err != nil {
			err = fmt.Errorf("checking the base image %s: %w", s.Base, err)
		}
		return s.Base, s.Base, err
	default:
		published, err := distros.CloudImageByName(s.Base, cmp.Or(s.Arch, runtime.GOARCH))
		if err != nil {
			return "", "", surface.Errorf("{base}: %w", err)
		}
		from = asset.Base{URL: published.URL, Sums: published.Sums, Key: published.Key,
			Signature: published.Signature, ImageSignature: published.ImageSignature}
	}
	name = asset.Place(from.URL)
	say("base image: " + name)
	file, err = asset.NewCache(cache, asset.NewFetcher(asset.UsualPatience())).Base(ctx, from, progress)
	return file, name, err
}

// Build makes one disk image of another.
type Build struct {
	Spec
	// File is the path of the base image.
	File string
	// Force replaces the disk image, if there is one.
	Force bool
	// Folder and Program are those of the work, see diskaudit.Work.
	Folder, Program *os.File
	// Input is that of the work, see diskaudit.Work. Progress gets what the work says.
	Input    any
	Progress io.Writer
}
