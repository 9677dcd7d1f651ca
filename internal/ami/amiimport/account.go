package amiimport

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/ami/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

// checkAccount checks what only the account shows, before the upload: names, regions,
// keys, the parent, whether the AMI can be shared, and quotas.
func (r *run) checkAccount(ctx context.Context) error {
	for _, check := range []func(context.Context) error{r.checkRegions, r.checkName, r.resolveKeys, r.checkParent,
		r.checkPublic, r.checkShares, r.checkQuotas} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) copies() []string {
	regions := slices.Compact(slices.Sorted(slices.Values(r.Spec.Regions)))
	return slices.DeleteFunc(regions, func(region string) bool { return region == r.aws.Region })
}

func (r *run) checkRegions(ctx context.Context) error {
	if len(r.Spec.Regions) == 0 {
		return nil
	}
	if err := r.aws.CheckRegions(ctx, r.Spec.Regions); err != nil {
		return surface.Errorf("{ami_regions}: %w", err)
	}
	return nil
}

// checkName checks that the name is free, or that its AMIs may be replaced. The AMIs of
// an import that was killed are this import's.
func (r *run) checkName(ctx context.Context) error {
	for _, a := range r.everywhere() {
		i, err := a.Named(ctx, r.Spec.Name)
		// it does not show its snapshot
		if err == nil && i.State == "pending" && snapshot.Interrupted(r.journal) != "" {
			i, err = a.AwaitImage(ctx, i.ID)
		}
		switch {
		case err != nil:
			return err
		case i.ID == "":
			continue
		case r.began(i):
			r.named[a.Region] = i
			continue
		}
		_, err = a.Recipe(ctx, i.ID)
		switch {
		case awsapi.IsGone(err): // and EC2 still lists it
		case !r.Spec.ForceDeregister:
			return surface.Errorf("{ami_name}: the name %q belongs to your AMI %s in %s; choose another name, or "+
				"replace the AMI with %s", r.Spec.Name, i.ID, a.Region, surface.Name("force_deregister").On())
		case err != nil:
			return err
		case strings.HasPrefix(i.Protection, "enabled"):
			return surface.Errorf("{force_deregister}: %s in %s is protected from deregistration; remove the "+
				"protection with `aws ec2 disable-image-deregistration-protection`", i.ID, a.Region)
		default:
			r.named[a.Region] = i
		}
	}
	return nil
}

// began says whether an import that was killed made an AMI: with the snapshot in the
// journal, or as a copy of that AMI.
func (r *run) began(i awsapi.Image) bool {
	if i.Region == r.aws.Region {
		return slices.Contains(i.Snapshots, snapshot.Interrupted(r.journal))
	}
	first := r.named[r.aws.Region]
	return first.ID != "" && i.Source == first.ID
}

// resolveKeys replaces the KMS keys by their ARNs, which the EBS direct APIs require.
func (r *run) resolveKeys(ctx context.Context) (err error) {
	if r.Spec.KMSKey != "" {
		if r.Spec.KMSKey, err = resolved(ctx, r.aws, "kms_key_id", r.Spec.KMSKey); err != nil {
			return err
		}
	}
	keys := map[string]string{}
	for _, region := range slices.Sorted(maps.Keys(r.Spec.RegionKeys)) {
		keys[region] = ""
		if key := r.Spec.RegionKeys[region]; key != "" {
			field := surface.Name("region_kms_key_ids").Key(region)
			if keys[region], err = resolved(ctx, r.aws.In(region), field, key); err != nil {
				return err
			}
		}
	}
	r.Spec.RegionKeys = keys
	return nil
}

// resolved is the ARN of a KMS key with which EBS can encrypt.
func resolved(ctx context.Context, a *awsapi.AWS, field surface.Name, id string) (string, error) {
	k, err := a.DescribeKey(ctx, id)
	switch {
	case err != nil:
		return "", surface.Errorf("%s: in %s: %w", field, a.Region, err)
	case k.State != "Enabled":
		return "", surface.Errorf("%s: the KMS key %s is in the state %s; choose a key in the state Enabled", field,
			k.ARN, k.State)
	case !k.Symmetric:
		return "", surface.Errorf("%s: the KMS key %s is not symmetric; EBS encrypts with symmetric keys only", field,
			k.ARN)
	}
	return k.ARN, nil
}

// checkParent finds the parent snapshot and checks the rules for encryption and parents
// (https://docs.aws.amazon.com/ebs/latest/userguide/ebsapis-using-encryption.html).
func (r *run) checkParent(ctx context.Context) error {
	if !r.Spec.parent() {
		return nil
	}
	account, err := r.aws.Account(ctx)
	if err != nil {
		return err
	}
	if r.Spec.ParentAMI != "" {
		if r.Spec.ParentSnapshot, err = r.parentOf(ctx, account); err != nil {
			return err
		}
	}
	parent, err := r.aws.Snapshot(ctx, r.Spec.ParentSnapshot)
	switch {
	case r.over(err):
		return nil
	case err != nil:
		return surface.Errorf("%s: %w", r.parentField(), err)
	}
	byDefault, _, err := r.aws.DefaultEncryption(ctx)
	if err != nil {
		return err
	}
	wrong := func(format string, args ...any) error {
		return surface.Errorf("%s: the snapshot %s "+format, append([]any{r.parentField(), parent.ID}, args...)...)
	}
	switch {
	case parent.Owner != account:
		return wrong("belongs to the account %s, and only your own snapshot can be a parent; copy it with "+
			"`aws ec2 copy-snapshot` first", parent.Owner)
	case parent.State != awsapi.SnapshotCompleted:
		return wrong("is in the state %s; only a completed snapshot can be a parent", parent.State)
	case byDefault && !parent.Encrypted:
		return wrong("is not encrypted, but the account encrypts new snapshots by default; leave the parent out, or " +
			"copy it with `aws ec2 copy-snapshot --encrypted` first")
	case parent.Size > r.image.SizeGiB():
		return wrong("has %d GiB, but the disk only %d GiB; choose another parent, or enlarge the disk", parent.Size,
			r.image.SizeGiB())
	}
	return nil
}

// over says that the parent is gone, because an import that was killed has registered
// the AMI and deleted the snapshots of the replaced one.
func (r *run) over(err error) bool {
	return awsapi.IsNotFound(err) && r.began(r.named[r.aws.Region])
}

func (r *run) parentField() surface.Name {
	if r.Spec.ParentAMI != "" {
		return "parent_ami"
	}
	return "parent_snapshot"
}

// parentOf is the root snapshot of the parent AMI.
func (r *run) parentOf(ctx context.Context, account string) (string, error) {
	i, err := r.aws.Image(ctx, r.Spec.ParentAMI)
	if was := r.replaced.of(r.aws.Region); awsapi.IsGone(err) &&
		slices.Contains(append(was.Earlier, was.Image), r.Spec.ParentAMI) {
		return was.Snapshots[0], nil // this import has replaced its parent
	}
	if err != nil {
		return "", surface.Errorf("%s: %w", r.parentField(), err)
	}
	if i.Owner != account {
		return "", surface.Errorf("%s: the AMI %s belongs to the account %s; copy it with `aws ec2 copy-image` first",
			r.parentField(), i.ID, cmp.Or(i.OwnerAlias, i.Owner))
	}
	for _, d := range i.Devices {
		if d.Name == i.RootDevice && d.Snapshot != "" {
			return d.Snapshot, nil
		}
	}
	return "", surface.Errorf("%s: the AMI %s has no snapshot of a root volume", r.parentField(), i.ID)
}

// checkShares checks that others can use the AMI: a public AMI has no encrypted
// snapshot, and only this account can use AWS's own key for EBS
// (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/sharingamis-explicit.html).
func (r *run) checkShares(ctx context.Context) error {
	if len(r.Spec.Groups) == 0 && !r.Spec.shared() {
		return nil
	}
	encrypted, key, err := r.encryption(ctx)
	if err != nil {
		return err
	}
	if err := r.checkShared(ctx, r.aws, "kms_key_id", encrypted, key); err != nil {
		return err
	}
	for _, a := range r.everywhere()[1:] {
		key, named := r.Spec.RegionKeys[a.Region]
		byDefault, _, err := a.DefaultEncryption(ctx)
		if err != nil {
			return err
		}
		field := surface.Name("region_kms_key_ids").Key(a.Region)
		if err := r.checkShared(ctx, a, field, encrypted || named || byDefault, key); err != nil {
			return err
		}
	}
	return nil
}

// encryption says how the snapshot is encrypted. An empty key is the account's default
// key.
func (r *run) encryption(ctx context.Context) (encrypted bool, key string, err error) {
	if r.Spec.ParentSnapshot != "" {
		parent, err := r.aws.Snapshot(ctx, r.Spec.ParentSnapshot)
		if r.over(err) {
			parent, err = r.aws.Snapshot(ctx, snapshot.Interrupted(r.journal))
		}
		return parent.Encrypted, parent.Key, err
	}
	if r.Spec.Encrypt {
		return true, r.Spec.KMSKey, nil
	}
	encrypted, _, err = r.aws.DefaultEncryption(ctx)
	return encrypted, "", err
}

// checkShared checks the encryption in one region.
func (r *run) checkShared(ctx context.Context, a *awsapi.AWS, field surface.Name, encrypted bool,
	key string) (err error) {
	switch {
	case !encrypted:
		return nil
	case len(r.Spec.Groups) > 0:
		return surface.Errorf("{ami_groups}: %s, and the one in %s would be encrypted", notPublic, a.Region)
	case key == "":
		if key, err = a.VolumeKey(ctx); err != nil {
			return err
		}
	}
	managed := strings.HasPrefix(key, "alias/aws/")
	if !managed {
		k, err := a.DescribeKey(ctx, key)
		if err != nil {
			return err
		}
		managed = k.AWSManaged
	}
	if managed {
		return fmt.Errorf("sharing the AMI: %w", surface.Errorf("the snapshot in %s would be encrypted with %s, "+
			"which other accounts cannot use; set %s to a key of your own", a.Region, key, field))
	}
	return nil
}

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
			err = surface.Errorf("{ami_groups}: block public access for AMIs is on in %s, so the AMI cannot be "+
				"public; %s", a.Region, remedy)
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
			r.Say("EC2 is copying %d snapshots to %s; unless AWS Support raised the limit, it copies %d at a time "+
				"and may refuse another",
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
