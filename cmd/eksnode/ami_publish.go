//go:build !agent

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// publishing holds the flags of `eksnode ami publish`.
type publishing struct {
	regions
	parameter, output string
}

// published is an AMI in the parameter of a region.
type published struct {
	Parameter string `json:"parameter"`
	Region    string `json:"region"`
	Image     string `json:"image"`
}

func amiPublishCommand() *cobra.Command {
	var p publishing
	cmd := &cobra.Command{
		Use:   "publish AMI",
		Short: "Write an AMI ID to an SSM parameter",
		Long: `AMI is an ID, or a region and an ID such as eu-west-1:ami-0123456789abcdef0. With
several regions, publish writes the parameter in each region that has the AMI or
a copy of the AMI. If a region of --region has no copy, or if a copy is not
available, nothing is written.`,
		Example: `  eksnode ami publish ami-0123456789abcdef0 --parameter /eksnode/debian/1.34/amd64
  eksnode ami publish ami-0123456789abcdef0 --parameter /eksnode/debian/1.34/amd64 --all-regions`,
		Args: named("an AMI ID", 1),
		RunE: func(cmd *cobra.Command, args []string) error { return p.run(cmd, args[0]) },
	}
	cmd.Flags().StringVar(&p.parameter, "parameter", "", "name of the SSM parameter")
	formatFlag(cmd, &p.output, "text", "json")
	p.flags(cmd)
	return cmd
}

func (p publishing) run(cmd *cobra.Command, arg string) error {
	if p.parameter == "" {
		return errors.New("--parameter is missing; name the SSM parameter for the AMI ID, such as /eksnode/debian/1.34/amd64")
	}
	if err := awsapi.CheckParameter(p.parameter); err != nil {
		return fmt.Errorf("--parameter: %w", err)
	}
	region, id, err := parseImage(arg)
	if err != nil {
		return err
	}
	opened, err := p.openFor(cmd.Context(), region)
	if err != nil {
		return err
	}
	ids, unread := map[string]string{opened[0].Region: id}, error(nil)
	if p.several() || region != "" && region != opened[0].Region {
		if ids, unread, err = p.copies(cmd.Context(), opened, region, id); err != nil {
			return err
		}
	}
	opened = slices.DeleteFunc(opened, func(a *awsapi.AWS) bool { return ids[a.Region] == "" })
	done, failed := awsapi.Each(cmd.Context(), opened, func(ctx context.Context, a *awsapi.AWS) (published, error) {
		return published{p.parameter, a.Region, ids[a.Region]}, a.Publish(ctx, p.parameter, ids[a.Region])
	})
	list := []published{}
	for _, a := range opened {
		if one, ok := done[a.Region]; ok {
			list = append(list, one)
		}
	}
	return errors.Join(p.print(cmd, list), failed, unread)
}

func (p publishing) print(cmd *cobra.Command, list []published) error {
	switch {
	case p.output == "json" && p.several():
		return writeJSON(cmd.OutOrStdout(), list)
	case p.output == "json" && len(list) > 0:
		return writeJSON(cmd.OutOrStdout(), list[0])
	case p.output == "json":
		return nil // the error has the reason
	}
	out := newPrinter(cmd.OutOrStdout())
	for _, one := range list {
		out.line("%s in %s is %s", one.Parameter, one.Region, one.Image)
	}
	return out.err
}

// copies returns the ID of an AMI's copy in each region. unread are the errors of
// regions that could not be read.
func (p publishing) copies(ctx context.Context, opened []*awsapi.AWS, region, id string) (ids map[string]string, unread, err error) {
	source, err := find(ctx, opened, region, id)
	if err != nil {
		return nil, nil, err
	}
	images, read, unread := imagesOf(ctx, opened, source.Owner)
	if !slices.ContainsFunc(images, func(i awsapi.Image) bool { return i.ID == id }) {
		images = append(images, source)
	}
	builds := awsapi.AllBuilds(images)
	build := builds[slices.IndexFunc(builds, func(b awsapi.Build) bool {
		return slices.ContainsFunc(b, func(i awsapi.Image) bool { return i.ID == id })
	})]
	ids = map[string]string{}
	var errs []error
	for _, a := range read {
		here := slices.DeleteFunc(slices.Clone(build), func(i awsapi.Image) bool {
			return i.Region != a.Region || a.Region == source.Region && i.ID != id
		})
		switch {
		case len(here) > 1:
			errs = append(errs, fmt.Errorf("%s has several copies of %s, such as %s and %s; publish one of them by its ID", a.Region, id, here[0].ID, here[1].ID))
		case len(here) == 1 && here[0].State != "available":
			errs = append(errs, fmt.Errorf("in %s: publishing the image %s: the image is %s", a.Region, here[0].ID, here[0].State))
		case len(here) == 1:
			ids[a.Region] = here[0].ID
		case !p.all:
			errs = append(errs, fmt.Errorf("%s has no copy of %s; copy the AMI to the region, or leave the region out", a.Region, id))
		}
	}
	if len(ids) == 0 && len(errs) == 0 {
		return nil, nil, unread
	}
	return ids, unread, errors.Join(errs...)
}
