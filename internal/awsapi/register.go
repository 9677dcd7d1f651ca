package awsapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	quotatypes "github.com/aws/aws-sdk-go-v2/service/servicequotas/types"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// NewImage is an image to register.
type NewImage = ec2.RegisterImageInput

// Register registers an image and waits until it is available. If the answer to the
// call was lost, it finds the image by its name and snapshot. Every instance type of EKS
// nodes needs hardware virtualization and ENA, so both are always set.
func (a *AWS) Register(ctx context.Context, n NewImage) (Image, error) {
	n.VirtualizationType, n.EnaSupport = new("hvm"), new(true)
	root := aws.ToString(n.BlockDeviceMappings[0].Ebs.SnapshotId)
	return a.register(ctx, &n, func(i Image) bool { return slices.Contains(i.Snapshots, root) })
}

// Some is a pointer to a value, or nil for the zero value, for which AWS has a default.
func Some[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}

// register registers an image. RegisterImage has no client token: ours says whether the
// image of that name is the one.
func (a *AWS) register(ctx context.Context, in *ec2.RegisterImageInput, ours func(Image) bool) (Image, error) {
	name := aws.ToString(in.Name)
	return a.create(ctx, name, ours, func(ctx context.Context) (*string, error) {
		out, err := a.ec2.RegisterImage(ctx, in)
		if err != nil {
			return nil, explain("registering the image "+name, err)
		}
		return out.ImageId, nil
	})
}

// Tagged gives a new resource tags.
func Tagged(kind types.ResourceType, tags map[string]string) []types.TagSpecification {
	if len(tags) == 0 {
		return nil
	}
	spec := types.TagSpecification{ResourceType: kind}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		spec.Tags = append(spec.Tags, types.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
	}
	return []types.TagSpecification{spec}
}

// AwaitImage waits until a new image is available. With an error, the returned image
// has at least its ID and region.
func (a *AWS) AwaitImage(ctx context.Context, id string) (Image, error) {
	a = a.ForNew()
	var i Image
	err := a.await(ctx, "image "+id, "available", func() (state, why string, err error) {
		i, err = a.Image(ctx, id)
		i.ID, i.Region = id, a.Region
		return i.State, i.StateReason, err
	})
	return i, err
}

// Copy is a copy of an image into another region.
type Copy struct {
	// Token makes a repeated copy return the first one. It has up to 64 characters.
	Token             string
	Name, Description string
	// Encrypted encrypts the copy with Key, a KMS key of the copy's region. An empty
	// Key is the default key of the account there.
	Encrypted bool
	Key       string
	Tags      map[string]string
}

// CopyFrom copies an image of another region into this one and waits until the copy is
// available.
func (a *AWS) CopyFrom(ctx context.Context, region, image string, c Copy) (Image, error) {
	doing := fmt.Sprintf("copying the image %s from %s to %s", image, region, a.Region)
	in := &ec2.CopyImageInput{
		ClientToken: &c.Token, SourceRegion: &region, SourceImageId: &image, Name: &c.Name,
		Description: Some(c.Description), Encrypted: Some(c.Encrypted), KmsKeyId: Some(c.Key),
		TagSpecifications: append(Tagged(types.ResourceTypeImage, c.Tags),
			Tagged(types.ResourceTypeSnapshot, c.Tags)...),
	}
	ours := func(i Image) bool { return i.Source == image && i.SourceRegion == region }
	return a.create(ctx, c.Name, ours, func(ctx context.Context) (*string, error) {
		out, err := a.ec2.CopyImage(ctx, in)
		if err != nil {
			return nil, explain(doing, err)
		}
		return out.ImageId, nil
	})
}

// CopiedSnapshots returns the snapshots of a copy, also while the copy is pending and
// shows none: EC2's description of a copied snapshot names the copy. It waits until
// there are some.
func (a *AWS) CopiedSnapshots(ctx context.Context, i Image) (ids []string, err error) {
	doing := "searching for the snapshots of the copy " + i.ID
	none := fmt.Errorf("%s: there are none yet; to find them later: aws ec2 describe-snapshots --region %s "+
		"--owner-ids self --filters 'Name=description,Values=*%s*'", doing, a.Region, i.ID)
	err = a.until(ctx, none, func() (bool, error) {
		now, err := a.Present(ctx, i.ID)
		if ids = now.Snapshots; err != nil || len(ids) > 0 {
			return true, err
		}
		found, err := a.ownSnapshots(ctx, doing, filters("description", "*DestinationAmi "+i.ID+" *")...)
		ids = show.Each(found, func(s Snapshot) string { return s.ID })
		return len(ids) > 0, err
	})
	return ids, err
}

// Share lets others use an image, and accounts read its snapshots.
func (a *AWS) Share(ctx context.Context, i Image, with []types.LaunchPermission, snapshots []string) error {
	errs := []error{a.permit(ctx, i.ID, with)}
	for _, account := range snapshots {
		add := []types.CreateVolumePermission{{UserId: aws.String(account)}}
		for _, id := range i.Snapshots {
			errs = append(errs, a.settled(ctx, func() error {
				_, err := a.ec2.ModifySnapshotAttribute(ctx, &ec2.ModifySnapshotAttributeInput{
					SnapshotId:             aws.String(id),
					CreateVolumePermission: &types.CreateVolumePermissionModifications{Add: add},
				})
				return explain("sharing the snapshot "+id, err)
			}))
		}
	}
	return errors.Join(errs...)
}

func (a *AWS) permit(ctx context.Context, id string, add []types.LaunchPermission) error {
	if len(add) == 0 {
		return nil
	}
	return a.settled(ctx, func() error {
		_, err := a.ec2.ModifyImageAttribute(ctx, &ec2.ModifyImageAttributeInput{
			ImageId: aws.String(id), LaunchPermission: &types.LaunchPermissionModifications{Add: add},
		})
		return explain("sharing the image "+id, err)
	})
}

// PublicBlocked says whether the account's settings keep AMIs in the region from being
// public, and the remedy. New accounts block this
// (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/block-public-access-to-amis.html).
func (a *AWS) PublicBlocked(ctx context.Context) (remedy string, blocked bool, err error) {
	out, err := a.ec2.GetImageBlockPublicAccessState(ctx, &ec2.GetImageBlockPublicAccessStateInput{})
	switch {
	case err != nil:
		return "", false, explain("reading block public access for AMIs", err)
	case aws.ToString(out.ImageBlockPublicAccessState) == string(types.ImageBlockPublicAccessDisabledStateUnblocked):
		return "", false, nil
	case out.ManagedBy == types.ManagedByDeclarativePolicy:
		return "a declarative policy of the organization sets it", true, nil
	}
	return "turn it off with `aws ec2 disable-image-block-public-access --region " + a.Region + "`", true, nil
}

// Quota is a quota of the account in a region.
type Quota struct {
	// Name is what the quota limits. Service and Code are those of Service Quotas.
	Name, Service, Code string
	Limit, Used         int
	// Free says how to use less.
	Free string
}

// Usage is what an account has in a region.
type Usage struct {
	Images, Public, Snapshots int
	// Copies are the snapshots that EC2 is copying into the region.
	Copies int
}

// The codes of quotas
// (https://docs.aws.amazon.com/general/latest/gr/ec2-service.html,
// https://docs.aws.amazon.com/general/latest/gr/ebs-service.html).
const (
	QuotaImages    = "L-B665C33B"
	QuotaPublic    = "L-0E3CBAB9"
	QuotaSnapshots = "L-309BACF6"
)

// CopiesMost is the number of snapshots that EC2 copies into a region at the same time,
// unless AWS Support raised the number, which no API tells
// (https://docs.aws.amazon.com/general/latest/gr/ebs-service.html).
const CopiesMost = 20

// Full is the error of a quota without room for one more.
func (q Quota) Full(region string) error {
	return fmt.Errorf("the quota of %s in %s is %d, and %d are used; %s, or request more with "+
		"`aws service-quotas request-service-quota-increase --region %s --service-code %s --quota-code %s "+
		"--desired-value %d`", q.Name, region, q.Limit, q.Used, q.Free, region, q.Service, q.Code, max(1, 2*q.Limit))
}

// Usage counts images, also disabled ones, and snapshots.
func (a *AWS) Usage(ctx context.Context) (u Usage, err error) {
	images, err := a.ownImages(ctx, listingImages)
	if err != nil {
		return u, err
	}
	snapshots, err := a.ownSnapshots(ctx, listing)
	u.Images, u.Snapshots = len(images), len(snapshots)
	for _, i := range images {
		if i.Public {
			u.Public++
		}
	}
	for _, s := range snapshots {
		if s.State == SnapshotPending && copied.MatchString(s.Description) {
			u.Copies++
		}
	}
	return u, err
}

// Quotas reads the limits of AMIs and snapshots.
func (a *AWS) Quotas(ctx context.Context, u Usage) ([]Quota, error) {
	all := []Quota{
		{Name: "AMIs", Service: "ec2", Code: QuotaImages, Used: u.Images,
			Free: "remove old ones with `eksnode ami retire --deregister`"},
		{Name: "public AMIs", Service: "ec2", Code: QuotaPublic, Used: u.Public,
			Free: "deregister old ones, or make them private"},
		{Name: "snapshots", Service: "ebs", Code: QuotaSnapshots, Used: u.Snapshots,
			Free: "delete those that no AMI has with `eksnode ami retire --orphans`"},
	}
	for n, q := range all {
		var err error
		if all[n].Limit, err = a.limit(ctx, q.Service, q.Code); err != nil {
			return nil, explain("reading the quota of "+q.Name, err)
		}
	}
	return all, nil
}

// limit is a quota's value. Service Quotas knows some only by their default.
func (a *AWS) limit(ctx context.Context, service, code string) (int, error) {
	out, err := a.quotas.GetServiceQuota(ctx, &servicequotas.GetServiceQuotaInput{ServiceCode: aws.String(service),
		QuotaCode: aws.String(code)})
	if err == nil && out.Quota != nil && out.Quota.Value != nil {
		return int(*out.Quota.Value), nil
	}
	if err != nil && !errors.As(err, new(*quotatypes.NoSuchResourceException)) {
		return 0, err
	}
	standard, err := a.quotas.GetAWSDefaultServiceQuota(ctx,
		&servicequotas.GetAWSDefaultServiceQuotaInput{ServiceCode: aws.String(service), QuotaCode: aws.String(code)})
	if err != nil {
		return 0, err
	}
	if standard.Quota == nil || standard.Quota.Value == nil {
		return 0, errors.New("the answer has no value")
	}
	return int(*standard.Quota.Value), nil
}
