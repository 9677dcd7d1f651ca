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
	cmd := &cobra.Command{
		Use: "fleet", Short: "Audit the disks of running nodes", Args: cobra.NoArgs,
		Long:    "Fleet commands work on the instances of a cluster, without a login.",
		Example: "  sudo -E eksnode fleet audit --cluster demo",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(fleetAuditCommand())
	return cmd
}

func fleetAuditCommand() *cobra.Command {
	var f nodeFleet
	cmd := &cobra.Command{
		Use:   "audit [INSTANCE...]",
		Short: "Find what has changed on nodes since their AMI, without a login",
		Long: `Audit makes a snapshot of each node's root volume, and reads what differs from the
snapshot of its AMI. It lists packages, programs and configuration that have changed, and
on how many nodes. Files below /var and /home, and those of users, are only counted. Then
it runs rules on the disk, by default those of the phase inspect. Snapshots are deleted
at once; after a kill, the next run uses and deletes them. With --existing-snapshots, the
newest snapshot of each volume is read, and none is made or deleted. The exit code is 1 when a
package or a program has changed or a rule found something, and 2 when a node could not
be read. Nodes are read one by one. This needs root and Linux.`,
		Example: `  eksnode fleet audit --cluster demo --dry-run
  sudo -E eksnode fleet audit --cluster demo
  sudo -E eksnode fleet audit i-0123456789abcdef0 --output json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.cluster, "cluster", "", "EKS cluster whose nodes to audit")
	flags.StringToStringVar(&f.tags, "tags", nil, "tags of the instances, as KEY=VALUE; an empty value is any")
	flags.BoolVar(&f.dryRun, "dry-run", false, "list the nodes and the most that reading them costs, and exit")
	flags.BoolVar(&f.existing, "existing-snapshots", false, "read the newest snapshot of each root volume, and make none")
	forms(cmd, map[string]func(string) error{"cluster": awsnames.ClusterName().Check})
	f.report.flag(cmd)
	options(flags, &f.spec, "rules", "skip_rules")
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
		return fmt.Errorf("%s has no running or stopped instance of this kind; look for its tags with aws ec2 describe-instances", a.Region)
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
		if err := awsnames.InstanceID().Check(id); err != nil {
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
