//go:build !agent

package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/show"
)

// regions holds the flags of a command that works in several regions.
type regions struct {
	aws   awsapi.Options
	names []string
	all   bool
}

func (r *regions) flags(cmd *cobra.Command) {
	accessFlags(cmd, &r.aws)
	cmd.Flags().StringSliceVar(&r.names, "region", nil, "AWS regions (default: one, from the environment or the profile)")
	cmd.Flags().BoolVar(&r.all, "all-regions", false, "use all regions that are enabled for the account")
}

// several reports whether more than one region may be meant.
func (r *regions) several() bool { return r.all || len(r.names) > 1 }

// open connects to the regions.
func (r *regions) open(ctx context.Context) ([]*awsapi.AWS, error) {
	if r.all && len(r.names) > 0 {
		return nil, errors.New("--region and --all-regions exclude each other; use one of them")
	}
	opened, err := awsapi.OpenRegions(ctx, r.aws, r.names, r.all)
	var unknown *awsapi.UnknownRegionError
	if errors.As(err, &unknown) {
		return nil, fmt.Errorf("--region: %w; similar are %s", err, strings.Join(similar(unknown.Name, unknown.Known), ", "))
	}
	return opened, err
}

// similar returns the three most similar names.
func similar(name string, known []string) []string {
	var list []string
	for known = slices.Clone(known); len(known) > 0 && len(list) < 3; {
		best := show.Nearest(name, known)
		if best == "" {
			best = known[0]
		}
		list = append(list, best)
		known = slices.DeleteFunc(known, func(n string) bool { return n == best })
	}
	return list
}

// namesImage matches an argument that names an AMI: an ID, or a region and an ID as
// Packer prints them.
var namesImage = regexp.MustCompile(`^(?:([a-z0-9-]+):)?(ami-[^/]*)$`)

// parseImage splits REGION:AMI. The region may be empty.
func parseImage(arg string) (region, id string, err error) {
	parts := namesImage.FindStringSubmatch(arg)
	if parts == nil {
		return "", "", fmt.Errorf("%q is not an AMI ID such as ami-0123456789abcdef0 or eu-west-1:ami-0123456789abcdef0", arg)
	}
	if parts[1] != "" {
		if err := awsnames.Region().Check(parts[1]); err != nil {
			return "", "", err
		}
	}
	return parts[1], parts[2], awsnames.ImageID().Check(parts[2])
}

// openFor connects to the regions of the flags. Without flags, it connects to the
// region that an argument names.
func (r *regions) openFor(ctx context.Context, named ...string) ([]*awsapi.AWS, error) {
	if !r.all && len(r.names) == 0 && !slices.Contains(named, "") {
		r.names = slices.Compact(slices.Clone(named))
	}
	return r.open(ctx)
}

// find describes an AMI, in a region or in one of those that are open.
func find(ctx context.Context, opened []*awsapi.AWS, region, id string) (awsapi.Image, error) {
	if region != "" {
		opened = []*awsapi.AWS{opened[0].In(region)}
	}
	return awsapi.Find(ctx, opened, id)
}

// imagesOf lists an owner's AMIs in all regions. The error names the regions that
// could not be read; read are the others.
func imagesOf(ctx context.Context, opened []*awsapi.AWS, owner string) (images []awsapi.Image, read []*awsapi.AWS, err error) {
	listed, err := awsapi.Each(ctx, opened, func(ctx context.Context, a *awsapi.AWS) ([]awsapi.Image, error) {
		return a.ImagesOf(ctx, owner)
	})
	for _, a := range opened {
		if some, ok := listed[a.Region]; ok {
			images, read = append(images, some...), append(read, a)
		}
	}
	return images, read, err
}
