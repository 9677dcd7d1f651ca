//go:build !agent

package main

import (
	"cmp"
	"encoding/json"
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
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/strictjson"
)

// amiFlags are those of `eksnode ami`.
type amiFlags struct {
	aws       awsapi.Options
	compare   []string
	publish   string
	parameter string
	retire    retirement
	output    string
	policy    bool
}

func amiCommand() *cobra.Command {
	var f amiFlags
	var retire bool
	cmd := &cobra.Command{
		Use:   "ami",
		Short: "List, compare, publish and retire your images",
		Long: `Ami lists the account's images that have tags beginning with ` + awsapi.TagPrefix + `, newest
first, with what those tags say. With --compare it shows how two images differ:
by their tags, or by their manifests where files are named. With --publish it
puts an image's id into an SSM parameter. With --retire it deprecates images, or
with --deregister takes them and their snapshots away; without --yes it only says
which.

An image that something refers to is never taken away: an instance, a Spot request,
an SSM parameter of this account, the latest or default version of a launch
template, a version that an Auto Scaling group, a managed node group or a fleet
uses, a launch configuration, or a launch permission for somebody else. A list
that cannot be read counts as a reference; the exit code is then 2.`,
		Example: `  eksnode ami
  eksnode ami --compare ami-0123456789abcdef0,ami-0fedcba9876543210
  eksnode ami --compare old/manifest.json,new/manifest.json
  eksnode ami --publish ami-0123456789abcdef0 --parameter /eksnode/debian/1.34/amd64
  eksnode ami --retire --keep 3 --older-than 90
  eksnode ami --retire --keep 3 --older-than 180 --deregister --yes
  eksnode ami --policy`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.misplaced(cmd, retire); err != nil {
				return err
			}
			switch {
			case f.policy:
				return printPolicy(cmd)
			case len(f.compare) > 0:
				return f.runCompare(cmd)
			case f.publish != "":
				return f.runPublish(cmd)
			case retire:
				return f.runRetire(cmd)
			default:
				return f.runList(cmd)
			}
		},
	}
	cmd.Flags().StringSliceVar(&f.compare, "compare", nil, "two images' ids, or two files with images' manifests")
	cmd.Flags().StringVar(&f.publish, "publish", "", "id of the image to put into --parameter")
	cmd.Flags().StringVar(&f.parameter, "parameter", "", "the SSM parameter's name")
	cmd.Flags().BoolVar(&retire, "retire", false, "retire old images")
	cmd.Flags().IntVar(&f.retire.keep, "keep", 3, "with --retire: how many of each distribution, Kubernetes minor version and processor stay")
	cmd.Flags().IntVar(&f.retire.days, "older-than", 90, "with --retire: how many days old an image is at least")
	cmd.Flags().BoolVar(&f.retire.deregister, "deregister", false, "with --retire: take images away that nothing refers to, and their snapshots")
	cmd.Flags().BoolVar(&f.retire.yes, "yes", false, "with --retire: do it")
	cmd.Flags().StringVar(&f.output, "output", "text", "how to print the list: text or json")
	cmd.Flags().BoolVar(&f.policy, "policy", false, "print the IAM policy that this command needs, and do nothing")
	awsFlags(cmd, &f.aws)
	return cmd
}

func printPolicy(cmd *cobra.Command) error {
	text, err := awsapi.Policy("EksnodeImages", awsapi.ImageActions())
	if err == nil {
		_, err = io.WriteString(cmd.OutOrStdout(), text)
	}
	return err
}

// misplaced says which flags would do nothing.
func (f *amiFlags) misplaced(cmd *cobra.Command, retire bool) error {
	var asked []string
	for _, name := range []string{"compare", "publish", "retire", "policy"} {
		if cmd.Flags().Changed(name) {
			asked = append(asked, "--"+name)
		}
	}
	switch {
	case f.output != "text" && f.output != "json":
		return fmt.Errorf("--output: %q is not known; known: json, text", f.output)
	case len(asked) > 1:
		return fmt.Errorf("%s: name one of them", strings.Join(asked, " and "))
	case len(asked) == 1 && cmd.Flags().Changed("output"):
		return fmt.Errorf("--output: it is for the list, not for %s", asked[0])
	}
	if f.publish == "" {
		if err := onlyWith(cmd, "publish", "parameter"); err != nil {
			return err
		}
	}
	if !retire {
		return onlyWith(cmd, "retire", "keep", "older-than", "deregister", "yes")
	}
	return nil
}

func (f *amiFlags) runList(cmd *cobra.Command) error {
	a, err := awsapi.Open(cmd.Context(), f.aws)
	if err != nil {
		return err
	}
	images, err := a.OwnImages(cmd.Context())
	if err != nil {
		return err
	}
	if f.output == "json" {
		e := json.NewEncoder(cmd.OutOrStdout())
		e.SetIndent("", "  ")
		return e.Encode(images)
	}
	t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
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

// carried is what an image's tags say, in order.
func carried(i awsapi.Image) []string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(i.Tags)) {
		if name, ours := strings.CutPrefix(key, awsapi.TagPrefix); ours {
			list = append(list, name+"="+i.Tags[key])
		}
	}
	return list
}

func (f *amiFlags) runPublish(cmd *cobra.Command) error {
	if f.parameter == "" {
		return errors.New("--parameter: name the SSM parameter that the image's id is put into")
	}
	if err := awsapi.CheckParameter(f.parameter); err != nil {
		return fmt.Errorf("--parameter: %w", err)
	}
	a, err := awsapi.Open(cmd.Context(), f.aws)
	if err != nil {
		return err
	}
	if err := a.Publish(cmd.Context(), f.parameter, f.publish); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s in %s is %s\n", f.parameter, a.Region, f.publish)
	return err
}

func (f *amiFlags) runCompare(cmd *cobra.Command) error {
	if len(f.compare) != 2 {
		return errors.New("--compare: name two images or two manifests, separated by a comma")
	}
	var sides [2]map[string]string
	for i, name := range f.compare {
		var err error
		if strings.HasPrefix(name, "ami-") {
			sides[i], err = f.imageFacts(cmd, name)
		} else {
			sides[i], err = manifestFacts(name)
		}
		if err != nil {
			return err
		}
	}
	return printDifferences(cmd.OutOrStdout(), f.compare, sides)
}

func (f *amiFlags) imageFacts(cmd *cobra.Command, id string) (map[string]string, error) {
	a, err := awsapi.Open(cmd.Context(), f.aws)
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

// manifestFacts are what a manifest says, each by a name that tells the same in
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
		return nil, fmt.Errorf("reading the manifest %s: its schema is %q, not %s", name, m.Schema, manifest.Schema)
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

func printDifferences(w io.Writer, names []string, sides [2]map[string]string) error {
	p := &printer{w: w}
	keys := maps.Clone(sides[0])
	maps.Copy(keys, sides[1])
	differences := 0
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		before, was := sides[0][key]
		after, is := sides[1][key]
		switch {
		case !was:
			p.line("+ %s: %s", key, after)
		case !is:
			p.line("- %s: %s", key, before)
		case before != after:
			p.line("~ %s: %s -> %s", key, before, after)
		default:
			continue
		}
		differences++
	}
	p.line("%d differences between %s and %s", differences, names[0], names[1])
	return p.err
}
