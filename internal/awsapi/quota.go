package awsapi

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	quotatypes "github.com/aws/aws-sdk-go-v2/service/servicequotas/types"
)

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
	// counts says what uses the quota.
	counts func(Usage) int
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

func quotas() []Quota {
	return []Quota{
		{Name: "AMIs", Service: "ec2", Code: QuotaImages, Free: "remove old ones with `eksnode ami retire --deregister`", counts: func(u Usage) int { return u.Images }},
		{Name: "public AMIs", Service: "ec2", Code: QuotaPublic, Free: "deregister old ones, or make them private", counts: func(u Usage) int { return u.Public }},
		{Name: "snapshots", Service: "ebs", Code: QuotaSnapshots, Free: "delete those that no AMI has with `eksnode ami retire --orphans`", counts: func(u Usage) int { return u.Snapshots }},
	}
}

// Full is the error of a quota without room for one more.
func (q Quota) Full(region string) error {
	return fmt.Errorf("the quota of %s in %s is %d, and %d are used; %s, or request more with "+
		"`aws service-quotas request-service-quota-increase --region %s --service-code %s --quota-code %s --desired-value %d`",
		q.Name, region, q.Limit, q.Used, q.Free, region, q.Service, q.Code, 2*q.Limit)
}

// Usage counts images, also disabled ones, and snapshots.
func (a *AWS) Usage(ctx context.Context) (u Usage, err error) {
	images, err := a.images(ctx, "self", true)
	if err != nil {
		return u, err
	}
	snapshots, err := a.snapshots(ctx)
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
	all := quotas()
	for n, q := range all {
		limit, err := a.limit(ctx, q.Service, q.Code)
		if err != nil {
			return nil, explain("reading the quota of "+q.Name, err)
		}
		all[n].Limit, all[n].Used = limit, q.counts(u)
	}
	return all, nil
}

// limit is a quota's value. Service Quotas knows some only by their default.
func (a *AWS) limit(ctx context.Context, service, code string) (int, error) {
	out, err := a.quotas.GetServiceQuota(ctx, &servicequotas.GetServiceQuotaInput{ServiceCode: aws.String(service), QuotaCode: aws.String(code)})
	if err == nil && out.Quota != nil && out.Quota.Value != nil {
		return int(*out.Quota.Value), nil
	}
	var missing *quotatypes.NoSuchResourceException
	if err != nil && !errors.As(err, &missing) {
		return 0, err
	}
	standard, err := a.quotas.GetAWSDefaultServiceQuota(ctx, &servicequotas.GetAWSDefaultServiceQuotaInput{ServiceCode: aws.String(service), QuotaCode: aws.String(code)})
	if err != nil {
		return 0, err
	}
	if standard.Quota == nil || standard.Quota.Value == nil {
		return 0, errors.New("the answer has no value")
	}
	return int(*standard.Quota.Value), nil
}
