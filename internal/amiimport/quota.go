package amiimport

import (
	"context"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/internal/surface"
)

// everywhere connects to the regions of the AMI and its copies.
func (r *run) everywhere() (all []*awsapi.AWS) {
	for _, region := range append([]string{r.aws.Region}, r.copies()...) {
		all = append(all, r.aws.In(region))
	}
	return all
}

// checkPublic checks that the account allows public AMIs in every region.
func (r *run) checkPublic(ctx context.Context) error {
	if len(r.Spec.Groups) == 0 {
		return nil
	}
	_, err := awsapi.Each(ctx, r.everywhere(), func(ctx context.Context, a *awsapi.AWS) (struct{}, error) {
		remedy, blocked, err := a.PublicBlocked(ctx)
		if blocked {
			err = surface.Errorf("%s: block public access for AMIs is on in %s, so the AMI cannot be public; %s", surface.Name("ami_groups"), a.Region, remedy)
		}
		return struct{}{}, err
	})
	return err
}

// checkQuotas checks that every region has room for one more AMI and snapshot. Quotas
// that cannot be read stop no import.
func (r *run) checkQuotas(ctx context.Context) error {
	_, err := awsapi.Each(ctx, r.everywhere(), func(ctx context.Context, a *awsapi.AWS) (struct{}, error) {
		usage, err := a.Usage(ctx)
		if err != nil {
			return struct{}{}, err
		}
		if a.Region != r.aws.Region && usage.Copies >= awsapi.CopiesMost {
			r.Say("EC2 is copying %d snapshots to %s; unless AWS Support raised the limit, it copies %d at a time and may refuse another",
				usage.Copies, a.Region, awsapi.CopiesMost)
		}
		quotas, err := a.Quotas(ctx, usage)
		if err != nil && ctx.Err() == nil {
			r.Say("the quotas of AMIs and snapshots in %s are not checked: %v", a.Region, err)
			return struct{}{}, nil
		}
		for _, q := range quotas {
			if q.Used >= q.Limit && r.adds(a.Region, q.Code) {
				return struct{}{}, q.Full(a.Region)
			}
		}
		return struct{}{}, err
	})
	return err
}

// adds says whether the import makes something more that a quota counts: the AMI of a
// killed import is there already, and an AMI that is replaced makes room for the new one.
func (r *run) adds(region, quota string) bool {
	there := r.named[region]
	switch quota {
	case awsapi.QuotaSnapshots:
		return (there.ID == "" || !r.began(there)) && (region != r.aws.Region || snapshot.Interrupted(r.journal) == "")
	case awsapi.QuotaPublic:
		return len(r.Spec.Groups) > 0 && !there.Public
	}
	return there.ID == ""
}
