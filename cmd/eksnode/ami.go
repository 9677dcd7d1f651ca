//go:build !agent

package main

import (
	"cmp"
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
	"github.com/eksnode/packer-plugin-eksnode/internal/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/human"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/strictjson"
)

// amiCommand groups the commands for AMIs.
func amiCommand() *cobra.Command {
	var policy bool
	cmd := &cobra.Command{
		Use:   "ami",
		Short: "List, compare, publish and retire your AMIs",
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
	cmd.AddCommand(amiListCommand(), amiDiffCommand(), amiPublishCommand(), amiRetireCommand())
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
	var options awsapi.Options
	var output string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List your AMIs and their tags, newest first",
		Example: "  eksnode ami list --output json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := awsapi.Open(cmd.Context(), options)
			if err != nil {
				return err
			}
			images, err := a.OwnImages(cmd.Context())
			if err != nil {
				return err
			}
			if output == "json" {
				return writeJSON(cmd.OutOrStdout(), images)
			}
			return printImages(cmd.OutOrStdout(), images)
		},
	}
	formatFlag(cmd, &output, "text", "json")
	awsFlags(cmd, &options)
	return cmd
}

func printImages(w io.Writer, images []awsapi.Image) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "IMAGE\tMADE\tPROCESSOR\tSTATE\tCARRIES")
	for _, i := range images {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", i.ID, i.Created.Format(time.DateOnly), i.Architecture, imageState(i), strings.Join(carried(i), " "))
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

// carried lists eksnode's tags of an AMI, sorted by key.
func carried(i awsapi.Image) []string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(i.Tags)) {
		if name, ours := strings.CutPrefix(key, awsapi.TagPrefix); ours {
			list = append(list, name+"="+i.Tags[key])
		}
	}
	return list
}

func amiPublishCommand() *cobra.Command {
	var options awsapi.Options
	var parameter, output string
	cmd := &cobra.Command{
		Use:     "publish AMI",
		Short:   "Write an AMI ID to an SSM parameter",
		Example: "  eksnode ami publish ami-0123456789abcdef0 --parameter /eksnode/debian/1.34/amd64",
		Args:    named("an AMI ID", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if parameter == "" {
				return errors.New("--parameter is missing; name the SSM parameter for the AMI ID, such as /eksnode/debian/1.34/amd64")
			}
			if err := awsapi.CheckParameter(parameter); err != nil {
				return fmt.Errorf("--parameter: %w", err)
			}
			if err := awsnames.ImageID().Check(args[0]); err != nil {
				return err
			}
			a, err := awsapi.Open(cmd.Context(), options)
			if err != nil {
				return err
			}
			if err := a.Publish(cmd.Context(), parameter, args[0]); err != nil {
				return err
			}
			if output == "json" {
				return writeJSON(cmd.OutOrStdout(), map[string]string{"parameter": parameter, "region": a.Region, "image": args[0]})
			}
			p := newPrinter(cmd.OutOrStdout())
			p.line("%s in %s is %s", parameter, a.Region, args[0])
			return p.err
		},
	}
	cmd.Flags().StringVar(&parameter, "parameter", "", "name of the SSM parameter")
	formatFlag(cmd, &output, "text", "json")
	awsFlags(cmd, &options)
	return cmd
}

func amiDiffCommand() *cobra.Command {
	var options awsapi.Options
	var output string
	cmd := &cobra.Command{
		Use:   "diff IMAGE IMAGE",
		Short: "Compare two AMIs or two manifests",
		Long: `IMAGE is an AMI ID, or a file with the manifest that provisioning writes to
` + manifest.Path + ` in the image.`,
		Example: `  eksnode ami diff ami-0123456789abcdef0 ami-0fedcba9876543210
  eksnode ami diff old/manifest.json new/manifest.json`,
		Args: named("two images or two manifests", 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				if err := awsnames.ImageID().Check(name); err != nil && strings.HasPrefix(name, "ami-") {
					return err
				}
			}
			var sides [2]map[string]string
			for i, name := range args {
				var err error
				if strings.HasPrefix(name, "ami-") {
					sides[i], err = imageFacts(cmd, options, name)
				} else {
					sides[i], err = manifestFacts(name)
				}
				if err != nil {
					return err
				}
			}
			list := differences(sides)
			if output == "json" {
				return writeJSON(cmd.OutOrStdout(), list)
			}
			return printDifferences(cmd.OutOrStdout(), args, list)
		},
	}
	formatFlag(cmd, &output, "text", "json")
	awsFlags(cmd, &options)
	return cmd
}

func imageFacts(cmd *cobra.Command, options awsapi.Options, id string) (map[string]string, error) {
	a, err := awsapi.Open(cmd.Context(), options)
	if err != nil {
		return nil, err
	}
	i, err := a.Image(cmd.Context(), id)
	if err != nil {
		return nil, err
	}
	facts := map[string]string{"processor": i.Architecture, "root device": i.RootDevice, "ENA": fmt.Sprint(i.ENA), "IMDS": cmp.Or(i.IMDS, "any")}
	for key, value := range i.Tags {
		facts["tag "+key] = value
	}
	return facts, nil
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
