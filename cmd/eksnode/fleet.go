//go:build !agent

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/ami/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskdiff"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/page"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// nodeFleet holds the flags of `eksnode fleet audit`.
type nodeFleet struct {
	selection
	disk    *auditedDisk
	cluster string
	tags    map[string]string
	output  string
	dryRun  bool
	// existing uses snapshots that others have made.
	existing bool
	report   tablePage
}

func fleetCommand() *cobra.Command {
	cmd := newCommand("fleet", cobra.NoArgs, showHelp)
	cmd.AddCommand(fleetAuditCommand())
	return cmd
}

func fleetAuditCommand() *cobra.Command {
	var f nodeFleet
	cmd := newCommand("audit [INSTANCE...]", cobra.ArbitraryArgs, f.run)
	bind(cmd, targets{
		"cluster": &f.cluster, "tags": &f.tags, "dry-run": &f.dryRun, "existing-snapshots": &f.existing,
		"report": &f.report.name,
	})
	forms(cmd, map[string]func(string) error{"cluster": awsnames.ClusterName.Check})
	options(cmd.Flags(), &f.spec, "rules", "skip_rules")
	f.disk = sourceFlags(cmd, awsapi.FleetPolicy)
	partitionFlag(cmd, &f.disk.partition)
	formatFlag(cmd, &f.output, "text", "json", "sarif", "junit")
	return cmd
}

func (f *nodeFleet) run(cmd *cobra.Command, args []string) error {
	ctx := cmd.Context()
	if err := f.choose(args); err != nil {
		return err
	}
	if f.dryRun {
		if err := notWith(cmd, "dry-run", "output", "report"); err != nil {
			return err
		}
	} else if err := mayMount("auditing nodes"); err != nil {
		return err
	}
	if err := f.report.begin(cmd); err != nil {
		return err
	}
	a, err := awsapi.Open(ctx, f.disk.aws)
	if err != nil {
		return err
	}
	nodes, err := a.Nodes(ctx, awsapi.Fleet{Instances: args, Tags: f.tags})
	switch {
	case err != nil:
		return err
	case len(nodes) == 0:
		return fmt.Errorf("%s has no running or stopped instance of this kind; look for its tags with aws ec2 "+
			"describe-instances", a.Region)
	case f.dryRun:
		return f.estimate(cmd, a, nodes)
	}
	r := fleetReport{Region: a.Region, Nodes: []fleetNode{}, Drift: []drift{}}
	said := newPrinter(cmd.ErrOrStderr())
	for n, node := range nodes {
		said.line("%s (%d of %d)", node.ID, n+1, len(nodes))
		again := slices.ContainsFunc(nodes[n+1:], func(o awsapi.Node) bool { return o.Image == node.Image })
		one, err := f.audit(cmd, a, node, again || f.disk.keep, &r)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			one.Error = err.Error()
		}
		r.Nodes = append(r.Nodes, one)
	}
	slices.SortStableFunc(r.Drift, func(x, y drift) int {
		return cmp.Or(strings.Compare(y.Kind, x.Kind), len(x.Nodes)-len(y.Nodes), strings.Compare(x.Name, y.Name))
	})
	return errors.Join(r.print(cmd, f.output), f.report.write("nodes of "+a.Region, r.tables()...))
}

// choose checks the flags, and makes a tag of the cluster.
func (f *nodeFleet) choose(args []string) error {
	if len(args) == 0 && f.cluster == "" && len(f.tags) == 0 {
		return errors.New("name the nodes: --cluster NAME, --tags KEY=VALUE or IDs of instances")
	}
	if len(args) > 0 && (f.cluster != "" || len(f.tags) > 0) {
		return errors.New("IDs of instances exclude --cluster and --tags: use one of them")
	}
	for _, id := range args {
		if err := awsnames.InstanceID.Check(id); err != nil {
			return err
		}
	}
	if f.cluster != "" {
		if f.tags == nil {
			f.tags = map[string]string{}
		}
		f.tags["kubernetes.io/cluster/"+f.cluster] = ""
	}
	if len(f.spec.Only) == 0 {
		f.spec.Only = []string{"inspect"}
	}
	return f.check(scrub.ToAudit)
}

// perThousand is the price of 1,000 blocks in US dollars
// (https://aws.amazon.com/ebs/pricing/, us-east-1, November 2026).
const perThousand = 0.003

func (f *nodeFleet) estimate(cmd *cobra.Command, a *awsapi.AWS, nodes []awsapi.Node) error {
	p, blocks := newPrinter(cmd.OutOrStdout()), int64(0)
	sizes := map[string]int64{}
	for _, n := range nodes {
		if _, known := sizes[n.Image]; !known {
			root, err := snapshot.Named{ID: n.Image}.Find(cmd.Context(), a)
			if err != nil {
				return err
			}
			for _, d := range root.Image.Devices {
				if d.Snapshot == root.Snapshot {
					sizes[n.Image] = int64(d.Size) << 30 / snapshot.BlockSize
				}
			}
			blocks += sizes[n.Image] // of the AMI
		}
		blocks += sizes[n.Image]
		p.line("%s  %s  %s", n.ID, n.Image, n.Volume)
	}
	p.line("%s; reading all blocks of %s costs at most %.2f USD, and only changed blocks are read of nodes",
		show.Count(len(nodes), "node"), show.Count(len(sizes), "AMI"), float64(blocks)*perThousand/1000)
	return p.err
}

// audit audits a node, and adds its drift to the report.
// With keep, the disk of its AMI stays in the cache.
func (f *nodeFleet) audit(cmd *cobra.Command, a *awsapi.AWS, node awsapi.Node, keep bool,
	r *fleetReport) (one fleetNode, err error) {
	one = fleetNode{Instance: node.ID, AMI: node.Image, Findings: []fleetFinding{}}
	take, remove := a.TakeSnapshot, a.RemoveSnapshot
	if f.existing {
		take, remove = a.NewestSnapshot, func(context.Context, string) error { return nil }
	}
	taken, err := take(cmd.Context(), node)
	if taken.ID != "" {
		defer func() { err = errors.Join(err, remove(context.WithoutCancel(cmd.Context()), taken.ID)) }()
	}
	if err != nil {
		return one, err
	}
	one.Taken = taken.Started
	d := newComparison(cmd, &comparison{
		output: "json", local: f.disk.local, partition: f.disk.partition, regions: regions{aws: f.disk.aws,
			names: []string{a.Region}},
	})
	d.keep = keep
	defer d.close(&err)
	if err := d.choose(a.Region+":"+node.Image, a.Region+":"+taken.ID); err != nil {
		return one, err
	}
	if err := d.find(cmd.Context()); err != nil {
		return one, err
	}
	if err := d.content(cmd.Context()); err != nil {
		return one, err
	}
	b := d.found.Blocks
	one.Blocks = b.Changed + b.Added + b.Removed
	r.add(node.ID, &one, d.found.Result)
	report, err := f.disk.auditFile(cmd.Context(), d.sides[1].path, f.spec)
	if err != nil {
		return one, err
	}
	one.Boots = report.Machine.Boots
	for _, p := range report.Problems() {
		for _, found := range p.Findings {
			one.Findings = append(one.Findings, fleetFinding{p.Item, found})
		}
	}
	return one, nil
}

// fleetReport is what `eksnode fleet audit --output json` prints.
type fleetReport struct {
	Region string      `json:"region"`
	Nodes  []fleetNode `json:"nodes"`
	Drift  []drift     `json:"drift"`
}

type fleetNode struct {
	Instance string `json:"instance"`
	AMI      string `json:"ami"`
	// Blocks are the blocks of 512 KiB that have changed.
	Blocks int `json:"blocks"`
	// State is the number of changed files that nodes change while they work.
	State    int            `json:"state"`
	Findings []fleetFinding `json:"findings"`
	Error    string         `json:"error,omitempty"`
	// Boots are those that the node's journal has.
	Boots []plan.Boot `json:"boots,omitempty"`
	// Taken is when the snapshot was made.
	Taken time.Time `json:"snapshot_time,omitzero"`
}

type fleetFinding struct {
	Rule string `json:"rule"`
	plan.Finding
}

// drift is a change on some of the nodes.
type drift struct {
	Kind   string   `json:"kind"` // one of package, program and configuration
	Name   string   `json:"name"`
	Change string   `json:"change"`
	Nodes  []string `json:"nodes"`
}

// driftKinds are the folders of a kind of drift. Other files are state.
var driftKinds = []struct {
	kind    string
	folders []string
}{
	{"configuration", []string{"/etc/"}},
	{"program", []string{"/usr/", "/opt/", "/bin/", "/sbin/", "/lib", "/boot/"}},
}

func (r *fleetReport) tables() []page.Table {
	drifted := page.Table{Title: "Changed since the AMI", Head: []string{"kind", "name", "change", "nodes"}}
	for _, d := range r.Drift {
		drifted.Rows = append(drifted.Rows, []string{d.Kind, d.Name, d.Change, strings.Join(d.Nodes, ", ")})
	}
	found := page.Table{Title: "Findings", Head: []string{"node", "rule", "where", "what to do"}}
	nodes := page.Table{Title: "Nodes",
		Head: []string{"node", "AMI", "changed blocks", "changed files of state", "error"}}
	boots := page.Table{Title: "Boots", Head: []string{"node", "from", "to"}}
	for _, n := range r.Nodes {
		for _, b := range n.Boots {
			boots.Rows = append(boots.Rows, []string{n.Instance, page.Time(b.Started), page.Time(b.Ended)})
		}
		for _, one := range n.Findings {
			found.Rows = append(found.Rows, []string{n.Instance, one.Rule, one.Target, one.Reason})
		}
		nodes.Rows = append(nodes.Rows,
			[]string{n.Instance, n.AMI, strconv.Itoa(n.Blocks), strconv.Itoa(n.State), n.Error})
	}
	return []page.Table{drifted, found, nodes, boots}
}

func (r *fleetReport) add(node string, one *fleetNode, found diskdiff.Result) {
	for _, p := range found.Packages {
		r.on(node, drift{Kind: "package", Name: p.Name, Change: versionText(p.Before) + " to " + versionText(p.After)})
	}
	for _, file := range found.Files {
		kind := ""
		for _, k := range driftKinds {
			if slices.ContainsFunc(k.folders,
				func(folder string) bool { return strings.HasPrefix(file.Name, folder) }) {
				kind = k.kind
			}
		}
		if kind == "" || file.Group == diskdiff.OfChangedPackage {
			one.State++
			continue
		}
		r.on(node, drift{Kind: kind, Name: file.Path, Change: fileChange(file)})
	}
}

func versionText(version *string) string {
	if version == nil {
		return "none"
	}
	return *version
}

func (r *fleetReport) on(node string, d drift) {
	same := slices.IndexFunc(r.Drift, func(o drift) bool {
		return o.Kind == d.Kind && o.Name == d.Name && o.Change == d.Change
	})
	if same < 0 {
		same, r.Drift = len(r.Drift), append(r.Drift, d)
	}
	r.Drift[same].Nodes = append(r.Drift[same].Nodes, node)
}

// nodesMost are the nodes that a line of drift names.
const nodesMost = 3

func (r *fleetReport) print(cmd *cobra.Command, output string) error {
	j := judge("fleet audit", r.cases(), r, r.text)
	if slices.ContainsFunc(r.Nodes, func(n fleetNode) bool { return n.Error != "" }) {
		j.Result = plan.Unknown // also with findings on other nodes
	}
	return j.print(cmd, output)
}

func (r *fleetReport) cases() (list []plan.Case) {
	page := plan.About{Page: "amis.md"}
	for _, d := range r.Drift {
		level := plan.Fails
		if d.Kind == "configuration" {
			level = plan.Warns
		}
		list = append(list, plan.Case{
			ID: "drift-" + d.Kind, Name: "changed since the AMI: " + d.Kind, About: page, Level: level,
			Remedy: "Replace the nodes, or build a new AMI.",
			Text: fmt.Sprintf("%s (%s) on %s: %s", d.Name, d.Change, show.Count(len(d.Nodes), "node"),
				strings.Join(d.Nodes, ", ")),
		})
	}
	for _, n := range r.Nodes {
		for _, found := range n.Findings {
			list = append(list, plan.Case{
				ID: found.Rule, About: plan.About{Page: "reference/rules.md"}, Level: plan.Fails,
				Text:  fmt.Sprintf("%s: %s (%s)", n.Instance, found.Target, found.Reason),
				Place: plan.Place{File: found.Target},
			})
		}
		one := plan.Case{ID: "node", Name: "node is read", About: page, Text: n.AMI}
		if n.Error != "" {
			one.Error = n.Instance + ": " + n.Error
		}
		list = append(list, one)
	}
	return list
}

func (r *fleetReport) text(p *printer) {
	for _, d := range r.Drift {
		on := d.Nodes
		if len(on) > nodesMost {
			on = append(slices.Clone(on[:nodesMost]), "…")
		}
		p.line("%-13s  %s  (%s)  %d of %d: %s", d.Kind, line(d.Name), line(d.Change), len(d.Nodes), len(r.Nodes),
			strings.Join(on, ", "))
	}
	for _, n := range r.Nodes {
		for _, found := range n.Findings {
			p.line("finding        %s: %s  (%s)", n.Instance, line(found.Target), line(found.Reason))
		}
		if n.Error != "" {
			p.line("unknown        %s: %s", n.Instance, line(n.Error))
			continue
		}
		p.line("%s of %s: %s changed, %s of state, %s", n.Instance, n.AMI, show.Count(n.Blocks, "block"),
			show.Count(n.State, "file"), show.Count(len(n.Findings), "finding"))
	}
}
