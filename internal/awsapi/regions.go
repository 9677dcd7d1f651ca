package awsapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"golang.org/x/sync/errgroup"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/surface"
)

// UnknownRegionError is a region that AWS does not have.
type UnknownRegionError struct {
	Name string
	// Known are the regions of the caller's partition.
	Known []string
}

func (e *UnknownRegionError) Error() string {
	return fmt.Sprintf("the region %s does not exist", e.Name)
}

// OpenRegions opens the named regions, or all regions that are enabled for the
// account. Without names, it opens the default region. Named regions are looked up
// if the caller may list the regions.
func OpenRegions(ctx context.Context, o Options, names []string, all bool) ([]*AWS, error) {
	o.Region = ""
	for _, name := range names {
		if err := awsnames.Region().Check(name); err != nil {
			return nil, surface.Errorf("%s: %w", surface.Name("region"), err)
		}
		o.defaultRegion = cmp.Or(o.defaultRegion, name)
	}
	home, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	if !all && len(names) == 0 {
		return []*AWS{home}, nil
	}
	if all {
		if names, _, err = home.regions(ctx); err != nil {
			return nil, err
		}
	} else if err := home.CheckRegions(ctx, names); err != nil {
		return nil, err
	}
	var opened []*AWS
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		opened = append(opened, home.In(name))
	}
	return opened, nil
}

// CheckRegions returns an error for a region that does not exist or is not enabled for
// the account. Without the permission to list regions, all names are accepted.
func (a *AWS) CheckRegions(ctx context.Context, names []string) error {
	enabled, disabled, err := a.regions(ctx)
	if err != nil {
		return nil // the calls in the region have errors of their own
	}
	for _, name := range names {
		if slices.Contains(disabled, name) {
			return fmt.Errorf("the region %s is not enabled for this account; enable the region, or leave it out", name)
		}
		if !slices.Contains(enabled, name) {
			return &UnknownRegionError{name, enabled}
		}
	}
	return nil
}

// In calls AWS in another region with the same credentials.
func (a *AWS) In(region string) *AWS {
	c := a.config.Copy()
	c.Region = region
	in := a.options.connect(c, a.settle)
	in.patience = a.patience
	return in
}

// regions lists the regions of the partition.
func (a *AWS) regions(ctx context.Context) (enabled, disabled []string, err error) {
	out, err := a.ec2.DescribeRegions(ctx, &ec2.DescribeRegionsInput{AllRegions: aws.Bool(true)})
	if err != nil {
		return nil, nil, explain("listing the regions", err)
	}
	for _, r := range out.Regions {
		if aws.ToString(r.OptInStatus) == "not-opted-in" {
			disabled = append(disabled, aws.ToString(r.RegionName))
		} else {
			enabled = append(enabled, aws.ToString(r.RegionName))
		}
	}
	if len(enabled) == 0 {
		return nil, nil, errIncomplete("listing the regions", "enabled region")
	}
	slices.Sort(enabled)
	return enabled, disabled, nil
}

// atOnce is the number of regions that are read at the same time.
const atOnce = 8

// Each reads every region, several at the same time, and returns the results by
// region. A region that fails has no result; the error names the region.
func Each[T any](ctx context.Context, regions []*AWS, read func(context.Context, *AWS) (T, error)) (map[string]T, error) {
	results, failures := make([]T, len(regions)), make([]error, len(regions))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for n, a := range regions {
		group.Go(func() error {
			results[n], failures[n] = read(ctx, a)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	byRegion := map[string]T{}
	for n, a := range regions {
		if failures[n] == nil {
			byRegion[a.Region] = results[n]
		}
	}
	return byRegion, inRegions(regions, failures)
}

// inRegions joins the errors of regions. Equal errors are one error that names all
// their regions. If there is only one region, the error does not name it.
func inRegions(regions []*AWS, failures []error) error {
	if len(regions) == 1 {
		return failures[0]
	}
	var errs []error
	for n, err := range failures {
		if err == nil || slices.ContainsFunc(failures[:n], func(e error) bool { return e != nil && e.Error() == err.Error() }) {
			continue
		}
		var names []string
		for m, other := range failures {
			if other != nil && other.Error() == err.Error() {
				names = append(names, regions[m].Region)
			}
		}
		errs = append(errs, fmt.Errorf("in %s: %w", strings.Join(names, ", "), err))
	}
	return errors.Join(errs...)
}
