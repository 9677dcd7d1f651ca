//go:build !agent

package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// amiCommand groups the commands for AMIs.
func amiCommand() *cobra.Command {
	var policy bool
	cmd := &cobra.Command{
		Use:   "ami",
		Short: "Import, list, compare, publish, promote and retire your AMIs",
		Long: `Your AMIs are those of this account with tags such as ` + awsapi.TagPrefix + `distro, which a build
sets.`,
		Example: "  eksnode ami list\n  eksnode ami --policy",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if policy {
				return printPolicy(cmd)
			}
			return cmd.Help()
		},
	}
	cmd.Flags().BoolVar(&policy, "policy", false, "print the required IAM policy and exit")
	cmd.AddCommand(amiListCommand(), amiDiffCommand(), amiImportCommand(), amiExportCommand(), amiPublishCommand(), amiPromoteCommand(), amiRetireCommand())
	return cmd
}

func printPolicy(cmd *cobra.Command) error {
	text, err := awsapi.Policy("EksnodeImages", awsapi.ImageActions())
	if err == nil {
		_, err = io.WriteString(cmd.OutOrStdout(), text)
	}
	return err
}

func amiListCommand() *cobra.Command {
	var r regions
	var output string
	var orphans bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List your AMIs and their tags, newest first",
		Long: `The list includes copies of these AMIs that have no tags. If a region cannot be
read, list prints the AMIs of the others, and the exit code is 2. With --orphans, list
prints snapshots that no AMI has, of all regions unless --region is set: those with
eksnode's tags, pending ones too, and those of copies of your AMIs.`,
		Example: "  eksnode ami list --output json\n  eksnode ami list --all-regions\n  eksnode ami list --orphans",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
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
			if output == "json" {
				return errors.Join(writeJSON(cmd.OutOrStdout(), images), err)
			}
			return errors.Join(printImages(cmd.OutOrStdout(), images), err)
		},
	}
	cmd.Flags().BoolVar(&orphans, "orphans", false, "list snapshots of builds, imports and copies that no AMI has")
	formatFlag(cmd, &output, "text", "json")
	r.flags(cmd)
	return cmd
}

func printImages(w io.Writer, images []awsapi.Image) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "IMAGE\tREGION\tMADE\tPROCESSOR\tSTATE\tCARRIES")
	for _, i := range images {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", i.ID, i.Region, i.Created.Format(time.DateOnly), i.Architecture, imageState(i), strings.Join(carried(i), " "))
	}
	return t.Flush()
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
	var list []string
	for _, name := range slices.Sorted(maps.Keys(marks)) {
		list = append(list, name+"="+marks[name])
	}
	return list
}
