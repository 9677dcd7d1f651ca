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
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
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
	formatFlag(cmd, &f.output, "text", "json", "sarif", "junit")
	return cmd
}

func (f *nodeFleet) run(cmd *cobra.Command, args []string) error {
	ctx := cmd.Context()
	if err := f.choose(args); err != nil {
		return err
	}
	if !f.dryRun {
		if err := mayMount("auditing nodes"); err != nil {
			return err
		}
	}
	if err := f.report.open(cmd); err != nil {
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
