package awsapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Tags of images that were approved or revoked: the SHA-256 of the statement, and what was
// done, when and why.
const (
	StatementTag = TagPrefix + "statement"
	ApprovalTag  = TagPrefix + "approval"
)

// Watermark is a mark that EC2 hands on to copies of an image, and to images of its
// instances (https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_AttachImageWatermark.html).
type Watermark struct {
	// Key is the account and the name, such as 123456789012:eksnode/audited.
	Key string
	// Image is the image that the mark was first attached to.
	Image string
}

// Named reports whether the mark has a name, of any account.
func (w Watermark) Named(name string) bool { return strings.HasSuffix(w.Key, ":"+name) }

// Captured finds an image that was made from an instance: the image itself, or the nearest
// one that it is a copy of. Without one, the result has no ID. An ancestor that this
// account does not see is passed over
// (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ami-ancestry.html).
func (a *AWS) Captured(ctx context.Context, i Image) (Image, error) {
	switch {
	case i.Instance != "":
		return i, nil
	case i.Source == "":
		return Image{}, nil
	}
	out, err := a.ec2.GetImageAncestry(ctx, &ec2.GetImageAncestryInput{ImageId: aws.String(i.ID)})
	if err != nil {
		return Image{}, explain("reading the ancestry of "+i.ID, err)
	}
	for _, e := range out.ImageAncestryEntries {
		if e.SourceImageId == nil {
			continue
		}
		from, err := a.In(cmp.Or(aws.ToString(e.SourceImageRegion), a.Region)).Image(ctx, *e.SourceImageId)
		if err != nil && !IsGone(err) {
			return Image{}, err
		}
		if err == nil && from.Instance != "" {
			return from, nil
		}
	}
	return Image{}, nil
}

// Approve tags an image with the SHA-256 of its statement and the reason, and attaches a
// watermark.
func (a *AWS) Approve(ctx context.Context, i Image, statement []byte, watermark, reason string) error {
	if i.Public {
		return fmt.Errorf("%s is public, and EC2 attaches no watermarks to public AMIs", i.ID)
	}
	err := a.TagImage(ctx, i.ID, map[string]string{
		StatementTag: fmt.Sprintf("sha256:%x", sha256.Sum256(statement)),
		ApprovalTag:  "approved " + time.Now().UTC().Format(time.RFC3339) + " " + reason,
	})
	if err != nil || slices.ContainsFunc(i.Watermarks,
		func(w Watermark) bool { return w.Named(watermark) && w.Image == i.ID }) {
		return err
	}
	_, err = a.ec2.AttachImageWatermark(ctx, &ec2.AttachImageWatermarkInput{
		ImageId: aws.String(i.ID), WatermarkName: aws.String(watermark)})
	return explain("attaching the watermark "+watermark+" to "+i.ID, err)
}

// DetachWatermark removes a watermark from an image.
func (a *AWS) DetachWatermark(ctx context.Context, image, key string) error {
	_, err := a.ec2.DetachImageWatermark(ctx, &ec2.DetachImageWatermarkInput{ImageId: aws.String(image),
		WatermarkKey: aws.String(key)})
	return explain("detaching the watermark "+key+" from "+image, err)
}

// TagImage sets tags of an image.
func (a *AWS) TagImage(ctx context.Context, image string, set map[string]string) error {
	in := &ec2.CreateTagsInput{Resources: []string{image}, Tags: Tagged(types.ResourceTypeImage, set)[0].Tags}
	_, err := a.ec2.CreateTags(ctx, in)
	return explain("tagging "+image, err)
}

// AllowedImages are the settings of an account and region that say which images may start
// (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-allowed-amis.html).
type AllowedImages struct {
	// State is disabled, audit-mode or enabled.
	State string `json:"state"`
	// ManagedBy is account or declarative-policy.
	ManagedBy string `json:"managed_by"`
	// Watermarks are the patterns of watermarks in the criteria.
	Watermarks []string `json:"watermarks"`
}

// AllowedImages reads the settings of the region.
func (a *AWS) AllowedImages(ctx context.Context) (AllowedImages, error) {
	out, err := a.ec2.GetAllowedImagesSettings(ctx, &ec2.GetAllowedImagesSettingsInput{})
	if err != nil {
		return AllowedImages{}, explain("reading the settings of allowed AMIs", err)
	}
	s := AllowedImages{State: aws.ToString(out.State), ManagedBy: string(out.ManagedBy), Watermarks: []string{}}
	for _, c := range out.ImageCriteria {
		for _, w := range c.ImageWatermarks {
			s.Watermarks = append(s.Watermarks, aws.ToString(w.WatermarkKey))
		}
	}
	return s, nil
}

// UsedImages returns the users of images in the region: instances, Spot requests, launch
// templates, Auto Scaling groups, node groups and fleets. The images may be anyone's.
func (a *AWS) UsedImages(ctx context.Context) (map[string][]string, error) {
	r := &References{aws: a, users: map[string][]string{}, parameters: map[string]string{}}
	for _, look := range []func(context.Context) error{
		func(ctx context.Context) error { return r.instancesOf(ctx) }, r.spotRequests, r.groups, r.configurations,
		r.nodeGroups, r.fleets, r.spotFleets, r.launchTemplates,
	} {
		if err := look(ctx); err != nil {
			return nil, fmt.Errorf("finding images in use: %w", err)
		}
	}
	return r.users, nil
}
