//go:build !agent

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/ami/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

func amiCommand() *cobra.Command {
	cmd := newCommand("ami", cobra.NoArgs, showHelp)
	policyFlag(cmd, func() (string, error) { return awsapi.Policy("EksnodeImages", awsapi.ImageActions()) })
	cmd.AddCommand(amiListCommand(), amiDiffCommand(), amiImportCommand(), amiExportCommand(), amiAttestCommand(),
		amiVerifyCommand(), amiApproveCommand(), amiRevokeCommand(), amiPolicyCommand(), amiPublishCommand(),
		amiPromoteCommand(), amiRetireCommand())
	return cmd
}

func amiListCommand() *cobra.Command {
	var r regions
	var output string
	var orphans bool
	cmd := newCommand("list", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		if orphans {
			return r.listOrphans(cmd, output)
		}
		opened, err := r.open(cmd.Context())
		if err != nil {
			return err
		}
		all, read, err := imagesOf(cmd.Context(), opened, "self")
		if len(read) == 0 {
			return err
		}
		images := append([]awsapi.Image{}, slices.Concat(awsapi.NodeBuilds(all)...)...)
		slices.SortStableFunc(images, func(x, y awsapi.Image) int { return y.Created.Compare(x.Created) })
		return errors.Join(answer(cmd, output, images, func(p *printer) {
			rows := [][]string{{"IMAGE", "REGION", "MADE", "PROCESSOR", "STATE", "CARRIES"}}
			for _, i := range images {
				rows = append(rows, []string{
					i.ID, i.Region, i.Created.Format(time.DateOnly), i.Architecture, imageState(i),
					strings.Join(carried(i), " "),
				})
			}
			p.table(rows)
		}), err)
	})
	bind(cmd, targets{"orphans": &orphans})
	formatFlag(cmd, &output, "text", "json")
	r.flags(cmd)
	return cmd
}

func imageState(i awsapi.Image) string {
	switch {
	case deprecated(i, time.Now()):
		return "deprecated " + i.Deprecated.Format(time.DateOnly)
	case !i.Deprecated.IsZero():
		return i.State + " until " + i.Deprecated.Format(time.DateOnly)
	}
	return i.State
}

// carried lists eksnode's tags of an AMI, sorted by key, or the source of a copy
// without them.
func carried(i awsapi.Image) []string {
	marks := i.Marks()
	if len(marks) == 0 {
		return []string{"copy of", i.SourceRegion + ":" + i.Source}
	}
	return show.Each(slices.Sorted(maps.Keys(marks)), func(name string) string { return name + "=" + marks[name] })
}

// regions holds the flags of a command that works in several regions.
type regions struct {
	aws   awsapi.Options
	names []string
	all   bool
}

func (r *regions) flags(cmd *cobra.Command) {
	accessFlags(cmd, &r.aws)
	cmd.Flags().StringSliceVar(&r.names, "region", nil,
		"AWS regions (default: one, from the environment or the profile)")
	bind(cmd, targets{"all-regions": &r.all})
}

// several reports whether more than one region may be meant.
func (r *regions) several() bool { return r.all || len(r.names) > 1 }

func (r *regions) open(ctx context.Context) ([]*awsapi.AWS, error) {
	if r.all && len(r.names) > 0 {
		return nil, errors.New("--region and --all-regions exclude each other; use one of them")
	}
	opened, err := awsapi.OpenRegions(ctx, r.aws, r.names, r.all)
	if unknown, ok := errors.AsType[*awsapi.UnknownRegionError](err); ok {
		return nil, fmt.Errorf("--region: %w; similar are %s", err,
			strings.Join(similar(unknown.Name, unknown.Known), ", "))
	}
	return opened, err
}

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

// openFor connects to the regions of the flags. Without flags, it connects to the
// region that an argument names.
func (r *regions) openFor(ctx context.Context, named ...string) ([]*awsapi.AWS, error) {
	if !r.all && len(r.names) == 0 && !slices.Contains(named, "") {
		r.names = slices.Compact(slices.Clone(named))
	}
	return r.open(ctx)
}

// find describes an AMI, in a region or in one of those that are open.
func find(ctx context.Context, opened []*awsapi.AWS, image snapshot.Named) (awsapi.Image, error) {
	if image.Region != "" {
		opened = []*awsapi.AWS{opened[0].In(image.Region)}
	}
	return awsapi.Find(ctx, opened, image.ID)
}

// imagesOf lists an owner's AMIs in all regions. The error names the regions that
// could not be read; read are the others.
func imagesOf(ctx context.Context, opened []*awsapi.AWS, owner string) (
	images []awsapi.Image, read []*awsapi.AWS, err error) {
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

func awsFlags(cmd *cobra.Command, o *awsapi.Options) {
	bind(cmd, targets{"region": &o.Region})
	accessFlags(cmd, o)
}

var awsFlagNames = []string{"region", "profile", "assume-role", "external-id", "endpoint"}

// accessFlags adds the flags of awsFlags without the region.
func accessFlags(cmd *cobra.Command, o *awsapi.Options) {
	bind(cmd, targets{
		"profile": &o.Profile, "assume-role": &o.AssumeRole, "external-id": &o.ExternalID, "endpoint": &o.Endpoint,
	})
}

// onlyWith refuses flags that have no effect without another flag.
func onlyWith(cmd *cobra.Command, other string, flags ...string) error {
	if set := given(cmd, flags...); len(set) > 0 {
		return fmt.Errorf("%s has no effect without --%s", set[0], other)
	}
	return nil
}
