package awsapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// TagPrefix begins the names of the tags that builds give their images.
const TagPrefix = "eksnode:"

// DigestTag is the tag with the content digest of an image's disk.
const DigestTag = TagPrefix + "digest"

// ImagesOf lists an owner's images in the region, also deprecated ones. The owner is an
// account ID, or self for the caller's account.
func (a *AWS) ImagesOf(ctx context.Context, owner string) ([]Image, error) {
	doing := "listing your images"
	if owner != "self" {
		doing = "listing the images of the account " + owner
	}
	return a.described(ctx, doing, &ec2.DescribeImagesInput{Owners: []string{owner}, IncludeDeprecated: new(true)})
}

// ownImages lists the caller's images, also deprecated and disabled ones.
func (a *AWS) ownImages(ctx context.Context, doing string, by ...types.Filter) ([]Image, error) {
	return a.described(ctx, doing, &ec2.DescribeImagesInput{
		Owners: []string{"self"}, Filters: by, IncludeDeprecated: new(true), IncludeDisabled: new(true),
	})
}

// imagesWith lists the image with an ID, also a deprecated or disabled one.
func (a *AWS) imagesWith(ctx context.Context, id string) ([]Image, error) {
	return a.described(ctx, "describing the image "+id, &ec2.DescribeImagesInput{
		ImageIds: []string{id}, IncludeDeprecated: new(true), IncludeDisabled: new(true),
	})
}

func (a *AWS) described(ctx context.Context, doing string, in *ec2.DescribeImagesInput) ([]Image, error) {
	pages := ec2.NewDescribeImagesPaginator(a.ec2, in)
	return collect(each[types.Image](ctx, doing, pages), func(in types.Image) Image { return imageOf(in, a.Region) })
}

// Marks returns the tags of an image that begin with TagPrefix, without the prefix and
// without those that any image can get: from an import, or from an approval.
func (i Image) Marks() map[string]string {
	marks := map[string]string{}
	for key, value := range i.Tags {
		if name, ours := strings.CutPrefix(key, TagPrefix); ours &&
			!slices.Contains([]string{DigestTag, StatementTag, ApprovalTag}, key) {
			marks[name] = value
		}
	}
	return marks
}

// Build is an image with its copies, newest first. An image is a copy if EC2 says so,
// or if an image of another region has the same name and the same marks.
type Build []Image

// Marks returns the marks of the oldest image that has any: EC2 copies an image
// without its tags, unless the caller asks for them.
func (b Build) Marks() map[string]string {
	for _, i := range slices.Backward(b) {
		if marks := i.Marks(); len(marks) > 0 {
			return marks
		}
	}
	return nil
}

// Made returns when the first image of the build was created.
func (b Build) Made() time.Time {
	var made time.Time
	for _, i := range b {
		if !i.Created.IsZero() && (made.IsZero() || i.Created.Before(made)) {
			made = i.Created
		}
	}
	return made
}

// AllBuilds groups images of one owner to builds, newest first.
func AllBuilds(images []Image) []Build {
	images = slices.Clone(images)
	slices.SortStableFunc(images, func(x, y Image) int { return y.Created.Compare(x.Created) })
	parent := map[string]string{}
	root := func(key string) string {
		for parent[key] != "" {
			key = parent[key]
		}
		return key
	}
	join := func(one, other string) {
		if one, other = root(one), root(other); one != other {
			parent[one] = other
		}
	}
	for _, i := range images {
		if i.Source != "" {
			join(i.Region+" "+i.ID, i.SourceRegion+" "+i.Source)
		}
		if marks := i.Marks(); len(marks) > 0 {
			alike := []string{"alike", i.Owner, i.Name, i.Architecture}
			for _, key := range slices.Sorted(maps.Keys(marks)) {
				alike = append(alike, key, marks[key])
			}
			join(i.Region+" "+i.ID, strings.Join(alike, "\x00"))
		}
	}
	index := map[string]int{}
	var builds []Build
	for _, i := range images {
		key := root(i.Region + " " + i.ID)
		n, known := index[key]
		if !known {
			n = len(builds)
			index[key], builds = n, append(builds, nil)
		}
		builds[n] = append(builds[n], i)
	}
	slices.SortStableFunc(builds, func(x, y Build) int {
		return y.Made().Compare(x.Made())
	})
	return builds
}

// NodeBuilds returns the builds whose images have marks: those that eksnode made.
func NodeBuilds(images []Image) []Build {
	return slices.DeleteFunc(AllBuilds(images), func(b Build) bool { return len(b.Marks()) == 0 })
}

// Image is an AMI.
type Image struct {
	ID, Name, Owner, State string
	Region                 string
	// Source and SourceRegion name the image that this one is a copy of. Both are
	// empty for an image that is no copy.
	Source, SourceRegion string
	// Instance is the instance that the image was made from, or empty.
	Instance string
	// OwnerAlias is amazon, aws-marketplace or empty.
	OwnerAlias string
	// Architecture is AWS's spelling: x86_64, arm64.
	Architecture           string
	RootDevice, RootType   string
	Virtualization         string
	ENA, Public, Encrypted bool
	IMDS                   string // v2.0, or empty
	Platform               string // windows, or empty
	Created                time.Time
	// Deprecated is the deprecation time; zero means never.
	Deprecated time.Time
	// Protection is EC2's word for the protection from deregistration; empty or
	// "disabled" means none.
	Protection string
	Tags       map[string]string
	Snapshots  []string
	// StateReason explains the state of a failed image, or is empty.
	StateReason string
	// BootMode is legacy-bios, uefi, uefi-preferred or empty. TPM is v2.0 or empty.
	BootMode, TPM string
	// Devices are the disks of the image's instances.
	Devices    []BlockDevice
	Watermarks []Watermark
}

func imageOf(in types.Image, region string) Image {
	i := Image{
		Region: region, Protection: aws.ToString(in.DeregistrationProtection),
		ID: aws.ToString(in.ImageId), Name: aws.ToString(in.Name), Owner: aws.ToString(in.OwnerId),
		State: string(in.State), OwnerAlias: aws.ToString(in.ImageOwnerAlias), Architecture: string(in.Architecture),
		RootDevice: aws.ToString(in.RootDeviceName), RootType: string(in.RootDeviceType),
		Virtualization: string(in.VirtualizationType), ENA: aws.ToBool(in.EnaSupport), Public: aws.ToBool(in.Public),
		IMDS: string(in.ImdsSupport), Platform: string(in.Platform), Created: instant(in.CreationDate),
		Deprecated: instant(in.DeprecationTime), Tags: tagsOf(in.Tags),
		// An image made from an instance has a source too: the image of the instance
		// (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ami-ancestry.html).
		Instance: aws.ToString(in.SourceInstanceId),
		BootMode: string(in.BootMode), TPM: string(in.TpmSupport), Devices: devicesOf(in.BlockDeviceMappings),
		Watermarks: show.Each(in.ImageWatermarks, func(w types.ImageWatermark) Watermark {
			return Watermark{aws.ToString(w.WatermarkKey), aws.ToString(w.SourceImageId)}
		}),
	}
	if in.StateReason != nil {
		i.StateReason = aws.ToString(in.StateReason.Message)
	}
	if i.Instance == "" && aws.ToString(in.SourceImageId) != "" {
		i.Source, i.SourceRegion = *in.SourceImageId, cmp.Or(aws.ToString(in.SourceImageRegion), region)
	}
	for _, d := range i.Devices {
		if d.Snapshot != "" { // a pending image has none
			i.Snapshots, i.Encrypted = append(i.Snapshots, d.Snapshot), i.Encrypted || d.Encrypted
		}
	}
	return i
}

// instant parses EC2's times. An invalid text is the zero time.
func instant(text *string) time.Time {
	t, _ := time.Parse(time.RFC3339, aws.ToString(text)) // zero after an error
	return t
}

func tagsOf(tags []types.Tag) map[string]string {
	all := make(map[string]string, len(tags))
	for _, t := range tags {
		all[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return all
}

// Image describes an image by its ID, or by its parameter in the form of launch
// templates.
func (a *AWS) Image(ctx context.Context, id string) (Image, error) {
	id, err := a.resolved(ctx, id)
	if err != nil {
		return Image{}, err
	}
	var found []Image
	err = a.settled(ctx, func() (err error) {
		if found, err = a.imagesWith(ctx, id); err == nil && len(found) != 1 {
			said := "an image exists only in its own region, and only for accounts that it is shared with"
			return fmt.Errorf("describing the image %s: %w", id, &APIError{Code: "InvalidAMIID.NotFound", Said: said})
		}
		return err
	})
	if err != nil {
		return Image{}, err
	}
	return found[0], nil
}

// resolved is an image ID, or the one in a parameter.
func (a *AWS) resolved(ctx context.Context, id string) (string, error) {
	if name, parameter := strings.CutPrefix(id, awsnames.ByParameter); parameter {
		return a.Parameter(ctx, name)
	}
	return id, nil
}

func (a *AWS) attribute(ctx context.Context, doing, id string, name types.ImageAttributeName) (
	*ec2.DescribeImageAttributeOutput, error) {
	out, err := a.ec2.DescribeImageAttribute(ctx, &ec2.DescribeImageAttributeInput{ImageId: &id, Attribute: name})
	return out, explain(doing, err)
}

// Named describes the caller's own image with a name. An image that does not exist has
// no ID.
func (a *AWS) Named(ctx context.Context, name string) (Image, error) {
	found, err := a.ownImages(ctx, "searching for your image "+name, filters("name", name)...)
	if err != nil || len(found) == 0 {
		return Image{}, err
	}
	return found[0], nil
}

// Find describes an image that is in one of the regions: the first that has the image,
// or the parameter.
func Find(ctx context.Context, regions []*AWS, id string) (Image, error) {
	if len(regions) == 1 {
		return regions[0].Image(ctx, id)
	}
	found, err := Each(ctx, regions, func(ctx context.Context, a *AWS) (Image, error) { return a.Present(ctx, id) })
	for _, a := range regions {
		if i := found[a.Region]; i.ID != "" {
			return i, nil
		}
	}
	return Image{}, errors.Join(fmt.Errorf("describing the image %s: the image is in none of the %d regions that "+
		"could be read", id, len(found)), err)
}

// Present describes an image like Image. A missing image or parameter has no ID.
func (a *AWS) Present(ctx context.Context, id string) (Image, error) {
	var found []Image
	id, err := a.resolved(ctx, id)
	if err == nil {
		found, err = a.imagesWith(ctx, id)
	}
	switch {
	case err != nil && !IsNotFound(err):
		return Image{}, err
	case len(found) != 1:
		return Image{}, nil
	}
	return found[0], nil
}

// Parameter reads an SSM parameter.
func (a *AWS) Parameter(ctx context.Context, name string) (string, error) {
	p, err := a.parameter(ctx, name)
	if err == nil && aws.ToString(p.Value) == "" {
		err = errIncomplete("reading the parameter "+name, "value")
	}
	return aws.ToString(p.Value), err
}

func (a *AWS) parameter(ctx context.Context, name string) (p ssmtypes.Parameter, err error) {
	out, err := a.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String(name)})
	if err == nil && out.Parameter != nil {
		p = *out.Parameter
	}
	return p, explain("reading the parameter "+name, err)
}

// Search selects an image.
type Search struct {
	// Parameter is an SSM parameter with the image ID. Empty searches by owner and
	// name.
	Parameter string
	// Owners are the accounts that may own the image. amazon and aws-marketplace
	// are also allowed.
	Owners []string
	// Name is a pattern; * is any text, ? any character.
	Name string
	// Architecture is AWS's spelling.
	Architecture string
}

// Newest finds the newest image. Owner and architecture must match the search, also
// when an SSM parameter names the image.
func (a *AWS) Newest(ctx context.Context, s Search) (Image, error) {
	if len(s.Owners) == 0 {
		return Image{}, fmt.Errorf("searching for an image: no owner is set; anyone may publish images under any name")
	}
	if s.Parameter == "" {
		return a.newestByName(ctx, s)
	}
	id, err := a.Parameter(ctx, s.Parameter)
	if err != nil {
		return Image{}, err
	}
	image, err := a.Image(ctx, id)
	if err != nil {
		return Image{}, err
	}
	if !slices.Contains(s.Owners, image.Owner) &&
		(image.OwnerAlias == "" || !slices.Contains(s.Owners, image.OwnerAlias)) {
		return Image{}, fmt.Errorf("checking the image %s of the parameter %s: the owner is %s, not %s", id,
			s.Parameter, image.Owner, strings.Join(s.Owners, " or "))
	}
	if image.Architecture != s.Architecture {
		return Image{}, fmt.Errorf("checking the image %s of the parameter %s: the image is for %s, not %s", id,
			s.Parameter, image.Architecture, s.Architecture)
	}
	return image, nil
}

func (a *AWS) newestByName(ctx context.Context, s Search) (Image, error) {
	doing := fmt.Sprintf("searching for images %s of %s", s.Name, strings.Join(s.Owners, ", "))
	found, err := a.described(ctx, doing, &ec2.DescribeImagesInput{
		Owners: s.Owners, Filters: filters("name", s.Name, "architecture", s.Architecture, "state", "available"),
	})
	switch {
	case err != nil:
		return Image{}, err
	case len(found) == 0:
		return Image{}, fmt.Errorf("%s: there is no image for %s in %s", doing, s.Architecture, a.Region)
	}
	return slices.MaxFunc(found, func(x, y Image) int { return x.Created.Compare(y.Created) }), nil
}

// filters makes filters from alternating names and values.
func filters(pairs ...string) []types.Filter {
	var list []types.Filter
	for pair := range slices.Chunk(pairs, 2) {
		list = append(list, types.Filter{Name: aws.String(pair[0]), Values: []string{pair[1]}})
	}
	return list
}
