//go:build !agent

package main

import (
	"cmp"
	"context"
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
	"github.com/eksnode/packer-plugin-eksnode/internal/human"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/strictjson"
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
	cmd.AddCommand(amiListCommand(), amiDiffCommand(), amiImportCommand(), amiPublishCommand(), amiPromoteCommand(), amiRetireCommand())
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
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List your AMIs and their tags, newest first",
		Long: `The list includes copies of these AMIs that have no tags. If a region cannot be
read, list prints the AMIs of the others, and the exit code is 2.`,
		Example: "  eksnode ami list --output json\n  eksnode ami list --all-regions",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
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

func amiDiffCommand() *cobra.Command {
	var r regions
	var output string
	cmd := &cobra.Command{
		Use:   "diff IMAGE IMAGE",
		Short: "Compare two AMIs or two manifests",
		Long: `IMAGE is an AMI ID, a region and an AMI ID such as eu-west-1:ami-0123456789abcdef0,
or a file with the manifest that provisioning writes to
` + manifest.Path + ` in the image. With several regions, diff searches them
for an AMI ID.`,
		Example: `  eksnode ami diff ami-0123456789abcdef0 ami-0fedcba9876543210
  eksnode ami diff eu-west-1:ami-0123456789abcdef0 us-east-1:ami-0fedcba9876543210
  eksnode ami diff old/manifest.json new/manifest.json`,
		Args: named("two images or two manifests", 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			sides, err := r.sides(cmd.Context(), args)
			if err != nil {
				return err
			}
			list := differences(sides)
			if output == "json" {
				return writeJSON(cmd.OutOrStdout(), list)
			}
			return printDifferences(cmd.OutOrStdout(), args, list)
		},
	}
	formatFlag(cmd, &output, "text", "json")
	r.flags(cmd)
	return cmd
}

// sides returns the facts of two AMIs or manifests.
func (r *regions) sides(ctx context.Context, args []string) (sides [2]map[string]string, err error) {
	var named []string
	ids := [2]string{}
	for n, arg := range args {
		if !namesImage.MatchString(arg) {
			if sides[n], err = manifestFacts(arg); err != nil {
				return sides, err
			}
			continue
		}
		region, id, err := parseImage(arg)
		if err != nil {
			return sides, err
		}
		ids[n], named = id, append(named, region)
	}
	if len(named) == 0 {
		return sides, nil
	}
	opened, err := r.openFor(ctx, named...)
	if err != nil {
		return sides, err
	}
	for n, id := range ids {
		if id == "" {
			continue
		}
		i, err := find(ctx, opened, named[0], id)
		if err != nil {
			return sides, err
		}
		named, sides[n] = named[1:], imageFacts(i)
	}
	return sides, nil
}

func imageFacts(i awsapi.Image) map[string]string {
	facts := map[string]string{"processor": i.Architecture, "root device": i.RootDevice, "ENA": fmt.Sprint(i.ENA), "IMDS": cmp.Or(i.IMDS, "any")}
	for key, value := range i.Tags {
		facts["tag "+key] = value
	}
	return facts
}

// manifestFacts reads the facts in a manifest. Equal names mean the same fact in
// both images.
func manifestFacts(name string) (map[string]string, error) {
	text, err := readFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	var m manifest.Manifest
	if err := strictjson.ReadKnown(text, &m); err != nil {
		return nil, fmt.Errorf("reading the manifest %s: %w", name, err)
	}
	if m.Schema != manifest.Schema {
		return nil, fmt.Errorf("reading the manifest %s: the schema is %q, not %s", name, m.Schema, manifest.Schema)
	}
	facts := map[string]string{"distro": strings.TrimSpace(m.Distro + " " + m.DistroVersion), "kubernetes": m.KubernetesVersion, "processor": m.Arch, "eksnode": m.Tool}
	for _, p := range m.Packages {
		facts["package "+p.Name] = p.Version
	}
	for _, a := range m.Assets {
		facts["asset "+a.ID] = a.Version + " " + a.SHA256
	}
	for _, t := range m.Templates {
		facts["template "+t.Path] = t.SHA256
	}
	for _, file := range m.Files {
		facts["file "+file.Path] = file.SHA256 + file.Link
	}
	for _, u := range m.Units {
		facts["unit "+u.Name] = map[bool]string{true: "starts at boot", false: "is started by the first boot"}[u.Enabled]
	}
	return facts, nil
}

// difference is a fact that differs between two images. nil means that the image
// does not have the fact.
type difference struct {
	Fact   string  `json:"fact"`
	Before *string `json:"before"`
	After  *string `json:"after"`
}

// differences compares facts and sorts the differences by name.
func differences(sides [2]map[string]string) []difference {
	list := []difference{}
	keys := maps.Clone(sides[0])
	maps.Copy(keys, sides[1])
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		d := difference{Fact: key}
		before, was := sides[0][key]
		after, is := sides[1][key]
		if was {
			d.Before = &before
		}
		if is {
			d.After = &after
		}
		if before != after || was != is {
			list = append(list, d)
		}
	}
	return list
}

func printDifferences(w io.Writer, names []string, list []difference) error {
	p := newPrinter(w)
	for _, d := range list {
		switch {
		case d.Before == nil:
			p.line("+ %s: %s", d.Fact, *d.After)
		case d.After == nil:
			p.line("- %s: %s", d.Fact, *d.Before)
		default:
			p.line("~ %s: %s -> %s", d.Fact, *d.Before, *d.After)
		}
	}
	p.line("%s between %s and %s", human.Count(len(list), "difference"), names[0], names[1])
	return p.err
}
