//go:build !agent

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/ami/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskaudit"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskdiff"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/page"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

// comparison holds the flags of `eksnode ami diff`.
type comparison struct {
	regions   regions
	output    string
	disk      bool
	partition int
	local     provisioner.Local
	report    tablePage
}

func amiDiffCommand() *cobra.Command {
	var c comparison
	cmd := newCommand("diff IMAGE IMAGE", named("two images or two manifests", 2), c.run)
	bind(cmd, targets{"disk": &c.disk, "report": &c.report.name})
	partitionFlag(cmd, &c.partition)
	options(cmd.Flags(), &c.local, "cache_folder")
	formatFlag(cmd, &c.output, "text", "json")
	c.regions.flags(cmd)
	policyFlag(cmd, anywhere(awsapi.SnapshotDiffPolicy))
	return cmd
}

func (c *comparison) run(cmd *cobra.Command, args []string) error {
	if !slices.ContainsFunc(args, snapshot.IsNamed) {
		if set := given(cmd, append([]string{"all-regions"}, awsFlagNames...)...); len(set) > 0 {
			return fmt.Errorf("%s has no effect on files; name an AMI or a snapshot", set[0])
		}
	}
	if c.disk {
		if err := c.report.begin(cmd); err != nil {
			return err
		}
		return c.compareDisks(cmd, args)
	}
	if err := errors.Join(onlyWith(cmd, "disk", "partition", "cache-folder"), c.report.begin(cmd)); err != nil {
		return err
	}
	return c.compareFacts(cmd, args)
}

func (c *comparison) compareFacts(cmd *cobra.Command, args []string) error {
	sides, err := c.regions.sides(cmd.Context(), args)
	if err != nil {
		return err
	}
	list := differences(sides)
	if err := c.report.write(differenceTitle(args), factTable(list)); err != nil {
		return err
	}
	return answer(cmd, c.output, list, func(p *printer) { p.differences(args, list) })
}

func differenceTitle(args []string) string { return args[0] + " and " + args[1] }

func factTable(list []difference) page.Table {
	t := page.Table{Title: "Facts", Head: []string{"fact", "before", "after"}}
	for _, d := range list {
		t.Rows = append(t.Rows, []string{d.Fact, versionText(d.Before), versionText(d.After)})
	}
	return t
}

func (r *regions) sides(ctx context.Context, args []string) (sides [2]map[string]string, err error) {
	var images [2]*snapshot.Named
	var regions []string
	for n, arg := range args {
		if !snapshot.IsNamed(arg) {
			if sides[n], err = manifestFacts(arg); err != nil {
				return sides, err
			}
			continue
		}
		image, err := snapshot.ParseNamed(arg)
		if err == nil && image.IsSnapshot() {
			err = fmt.Errorf("%s: without --disk, diff compares what AWS says about images, but not snapshots; "+
				"add --disk to compare the disks", arg)
		}
		if err != nil {
			return sides, err
		}
		images[n], regions = &image, append(regions, image.Region)
	}
	if len(regions) == 0 {
		return sides, nil
	}
	opened, err := r.openFor(ctx, regions...)
	if err != nil {
		return sides, err
	}
	for n, image := range images {
		if image != nil {
			i, err := find(ctx, opened, *image)
			if err != nil {
				return sides, err
			}
			sides[n] = imageFacts(i)
		}
	}
	return sides, nil
}

func imageFacts(i awsapi.Image) map[string]string {
	facts := map[string]string{"processor": i.Architecture, "root device": i.RootDevice, "ENA": fmt.Sprint(i.ENA),
		"IMDS": cmp.Or(i.IMDS, "any")}
	for key, value := range i.Tags {
		facts["tag "+key] = value
	}
	return facts
}

// manifestFacts reads the facts in a manifest. Equal names mean the same fact in
// both images.
func manifestFacts(name string) (map[string]string, error) {
	text, err := surface.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	if !isJSON(text) {
		return nil, fmt.Errorf("reading the manifest %s: the file is not JSON; add --disk to compare disk images", name)
	}
	var m manifest.Manifest
	if err := strictjson.ReadKnown(text, &m); err != nil {
		return nil, fmt.Errorf("reading the manifest %s: %w", name, err)
	}
	if m.Schema != manifest.Schema {
		return nil, fmt.Errorf("reading the manifest %s: the schema is %q, not %s", name, m.Schema, manifest.Schema)
	}
	facts := map[string]string{"distro": strings.TrimSpace(m.Distro + " " + m.DistroVersion),
		"kubernetes": m.KubernetesVersion, "processor": m.Arch, "eksnode": m.Tool}
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
		starts := map[bool]string{true: "starts at boot", false: "is started by the first boot"}
		facts["unit "+u.Name] = starts[u.Enabled]
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
	for fact, values := range diskdiff.Differing(sides[0], sides[1]) {
		list = append(list, difference{Fact: fact, Before: values[0], After: values[1]})
	}
	return list
}

func (p *printer) differences(names []string, list []difference) {
	for _, d := range list {
		p.change(d.Fact, d.Before, d.After, "")
	}
	p.line("%s between %s and %s", show.Count(len(list), "difference"), names[0], names[1])
}

// change prints what was added, removed or changed, as diff does.
func (p *printer) change(name string, before, after *string, more string) {
	switch name = line(name); {
	case before == nil:
		p.line("+ %s: %s%s", name, line(*after), more)
	case after == nil:
		p.line("- %s: %s%s", name, line(*before), more)
	default:
		p.line("~ %s: %s -> %s%s", name, line(*before), line(*after), more)
	}
}

// print prints the summary, then packages, then files that no changed package explains.
func (d *diskComparison) print(p *printer) {
	r := d.found.Result
	if both := slices.Compact(slices.Clone(d.found.Digests)); len(both) > 0 {
		p.line("digest: %s", strings.Join(both, " -> "))
	}
	if r.Blocks.By != "" {
		how := "by content, without free space"
		if r.Blocks.By == diskdiff.ByLineage {
			how = "as EBS lists them"
		}
		p.line("blocks: %s, %s", r.Blocks, how)
		if was, is := r.Roots[0], r.Roots[1]; was.FileSystem != is.FileSystem {
			p.line("file systems: %s -> %s", was.FileSystem, is.FileSystem)
		}
	}
	p.line("packages: %s", signs(r.Packages,
		func(k diskdiff.Package) (bool, bool) { return k.Before != nil, k.After != nil }))
	p.line("files: %s", signs(r.Files, func(f diskdiff.File) (bool, bool) { return f.Before != nil, f.After != nil }))
	groups := map[string][]diskdiff.File{}
	for _, f := range r.Files {
		groups[f.Group] = append(groups[f.Group], f)
	}
	for _, one := range []struct{ group, what string }{
		{diskdiff.OfChangedPackage, "of changed packages"},
		{diskdiff.OfSamePackage, "of packages with the same version"}, {diskdiff.OfNoPackage, "of no package"},
	} {
		p.line("  %s: %d", one.what, len(groups[one.group]))
	}
	for _, k := range r.Packages {
		p.change("package "+k.Name, k.Before, k.After, " ("+show.Count(k.Files, "file")+")")
	}
	printFiles(p, "files of packages with the same version", groups[diskdiff.OfSamePackage])
	printFiles(p, "files of no package", groups[diskdiff.OfNoPackage])
	for _, note := range d.found.Notes {
		p.line("note: %s", line(note))
	}
}

// signs counts what was changed, added and removed.
func signs[T any](list []T, of func(T) (was, is bool)) string {
	changed, added, removed := 0, 0, 0
	for _, one := range list {
		switch was, is := of(one); {
		case was && is:
			changed++
		case is:
			added++
		default:
			removed++
		}
	}
	return fmt.Sprintf("%d changed, %d added, %d removed", changed, added, removed)
}

// printFiles prints files. A directory that was added or removed has one line with all
// that is in it.
func printFiles(p *printer, title string, list []diskdiff.File) {
	if len(list) == 0 {
		return
	}
	p.line("%s:", title)
	for len(list) > 0 {
		f := list[0]
		list = list[1:]
		owner := ""
		if f.Package != "" {
			owner = " (" + line(f.Package) + ")"
		}
		if f.Before != nil && f.After != nil {
			p.line("~ %s%s: %s", shown(f.Name), owner, line(strings.Join(f.Differs, ", ")))
			continue
		}
		state, sign := f.After, "+"
		if f.After == nil {
			state, sign = f.Before, "-"
		}
		inside := 0
		for state.Type == diskaudit.Directory && inside < len(list) &&
			strings.HasPrefix(list[inside].Name, f.Name+"/") && (list[inside].Before == nil) == (f.Before == nil) {
			inside++
		}
		list = list[inside:]
		what := string(state.Type)
		if inside > 0 {
			what = "directory with " + show.Count(inside, "other file")
		}
		p.line("%s %s%s: %s", sign, shown(f.Name), owner, what)
	}
}
