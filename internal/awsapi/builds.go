package awsapi

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// TagPrefix begins the names of the tags that builds give their images.
const TagPrefix = "eksnode:"

// ImagesOf lists an owner's images in the region. The owner is an account ID, or self
// for the caller's account.
func (a *AWS) ImagesOf(ctx context.Context, owner string) ([]Image, error) {
	return a.images(ctx, owner, false)
}

// images lists an owner's images, also deprecated ones.
func (a *AWS) images(ctx context.Context, owner string, disabled bool) ([]Image, error) {
	doing := "listing your images"
	if owner != "self" {
		doing = "listing the images of the account " + owner
	}
	var images []Image
	in := &ec2.DescribeImagesInput{Owners: []string{owner}, IncludeDeprecated: aws.Bool(true)}
	if disabled {
		in.IncludeDisabled = aws.Bool(true)
	}
	pages := ec2.NewDescribeImagesPaginator(a.ec2, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, explain(doing, err)
		}
		for _, in := range page.Images {
			images = append(images, imageOf(in, a.Region))
		}
	}
	return images, nil
}

// Marks returns the tags of an image that begin with TagPrefix, without the prefix.
func (i Image) Marks() map[string]string {
	marks := map[string]string{}
	for key, value := range i.Tags {
		if name, ours := strings.CutPrefix(key, TagPrefix); ours {
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
