package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"syscall"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

// Named is an AMI or a snapshot whose disk is read.
type Named struct {
	// Region is the region of REGION:ID, or empty.
	Region string
	// ID is the ID of an AMI or a snapshot, or an AMI's parameter.
	ID string
}

var (
	withRegion = regexp.MustCompile(`^([a-z0-9-]+):((?:ami|snap)-.*)$`)
	// names matches the ID of an AMI or a snapshot, with or without its region. A file such
	// as snap-1.raw has a dot in its name.
	names = regexp.MustCompile(`^(?:[a-z0-9-]+:)?(ami|snap)-[^/.]*$`)
)

// IsNamed reports whether a text is the ID of an AMI or a snapshot, and not a file.
func IsNamed(text string) bool { return names.MatchString(text) }

// ParseNamed checks a text for which IsNamed is true.
func ParseNamed(text string) (Named, error) {
	if parts := names.FindStringSubmatch(text); parts != nil && parts[1] == "snap" {
		return ParseSnapshot(text)
	}
	return ParseAMI(text)
}

// ParseAMI checks the name of an AMI, with or without its region.
func ParseAMI(text string) (Named, error) { return parse(text, awsnames.Image) }

// ParseSnapshot checks the name of a snapshot, with or without its region.
func ParseSnapshot(text string) (Named, error) { return parse(text, awsnames.SnapshotID.Check) }

// parse splits REGION:ID. The region may be left out.
func parse(text string, check func(string) error) (Named, error) {
	parts := withRegion.FindStringSubmatch(text)
	if parts == nil {
		return Named{ID: text}, check(text)
	}
	return Named{parts[1], parts[2]}, errors.Join(awsnames.Region.Check(parts[1]), check(parts[2]))
}

// IsSnapshot reports whether the disk is that of a snapshot.
func (n Named) IsSnapshot() bool { return strings.HasPrefix(n.ID, "snap-") }

// Open connects to the region of the disk, or to that of the options.
func (n Named) Open(ctx context.Context, o awsapi.Options) (*awsapi.AWS, error) {
	if n.Region != "" && o.Region != "" && n.Region != o.Region {
		return nil, surface.Errorf("%s: %s:%s is in another region; leave one of them out",
			surface.Name("region").Is(o.Region), n.Region, n.ID)
	}
	o.Region = cmp.Or(o.Region, n.Region)
	return awsapi.Open(ctx, o)
}

// Root is the snapshot of the root volume of an AMI, or a snapshot by itself.
type Root struct {
	AWS      *awsapi.AWS
	Snapshot string
	// Image is the AMI, or has no ID.
	Image awsapi.Image
	// Others are the other volumes of the AMI.
	Others []awsapi.BlockDevice
}

// Locate connects to the region of the disk, and finds its snapshot.
func (n Named) Locate(ctx context.Context, o awsapi.Options) (Root, error) {
	a, err := n.Open(ctx, o)
	if err != nil {
		return Root{}, err
	}
	return n.Find(ctx, a)
}

// Find finds the snapshot of the disk.
func (n Named) Find(ctx context.Context, a *awsapi.AWS) (Root, error) {
	if n.IsSnapshot() {
		return Root{AWS: a, Snapshot: n.ID}, nil
	}
	i, err := a.Image(ctx, n.ID)
	if awsapi.IsGone(err) {
		err = surface.Errorf("%w; %s has no such AMI that this account may see: name another region with {region}, "+
			"or the snapshot of a deregistered AMI", err, a.Region)
	}
	if err != nil {
		return Root{}, err
	}
	root, others, err := i.RootDisk()
	return Root{a, root.Snapshot, i, others}, err
}

// Explain adds what to do to an error about the snapshot. Elsewhere says how to write
// the disk elsewhere.
func (r Root) Explain(err error, elsewhere string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%w; make space, or %s", err, elsewhere)
	case !awsapi.IsGone(err):
		return err
	case r.Image.ID == "":
		return surface.Errorf("%w; %s has no such snapshot that this account may see: name another region with "+
			"{region}", err, r.AWS.Region)
	}
	return fmt.Errorf("%w; the snapshot is deleted, or not shared by the account %s: copy the image, and name the "+
		"copy: aws ec2 copy-image --region %s --source-region %[3]s --source-image-id %s --name NAME",
		err, r.Image.Owner, r.AWS.Region, r.Image.ID)
}

// String describes the disk.
func (r Root) String() string {
	if r.Image.ID == "" {
		return fmt.Sprintf("the snapshot %s in %s", r.Snapshot, r.AWS.Region)
	}
	return fmt.Sprintf("the root volume %s of %s (%s in %s)", r.Image.RootDevice, r.Image.ID, r.Snapshot, r.AWS.Region)
}
