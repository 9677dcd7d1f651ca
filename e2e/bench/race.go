package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/bed"
	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/contest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/report"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// node is a machine that a block has provisioned once.
type node struct {
	*bed.Node
	mirror string // folder
	source string // the mirror's address
	laid   *laid
}

// provisioned makes such a machine for the first benchmark that needs one.
func (b *bench) provisioned(ctx context.Context) (*node, error) {
	if b.node != nil {
		return b.node, nil
	}
	opened, err := b.bed(ctx)
	if err != nil {
		return nil, err
	}
	assets, err := mirror.Build(ctx, mirror.Versions{}, runtime.GOARCH, b.progress)
	if err != nil {
		return nil, err
	}
	n := &node{mirror: assets.Folder}
	if n.source, err = opened.Mirror(ctx, n.mirror, 0); err != nil {
		return nil, err
	}
	if n.Node, err = b.boot(ctx); err != nil {
		return nil, err
	}
	fmt.Fprintln(b.progress, "  provisioning once, to learn what is laid down")
	if n.laid, err = b.learn(ctx, n.Node, n.source); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	b.node = n
	return n, nil
}

// again is the machine with what was laid down removed, for another run.
func (n *node) again(ctx context.Context) (*bed.Node, error) {
	_, err := n.Run(ctx, n.laid.removal())
	return n.Node, err
}

// race has a block and shell provisioners make the same node.
type race struct {
	bench    *bench
	name     string
	source   string // of the assets
	laid     *laid
	packages bool // are to be installed
	// next gives the machine for a run, ready for it.
	next func(context.Context) (*bed.Node, error)

	sessions sessions
	shell    []shellStep
	last     plan.Report // the block's
}

func (r *race) run(ctx context.Context, rounds int) (contest.Outcome, error) {
	var err error
	if r.shell, err = r.laid.shellSteps(r.source, r.packages); err != nil {
		return contest.Outcome{}, err
	}
	c := contest.Contest{Name: r.name, Rounds: rounds, Now: r.bench.now, Log: r.bench.progress, Contestants: []contest.Contestant{
		{Name: "eksnode block", Prepare: r.prepare, Run: r.runBlock, Check: r.checkBlock},
		{Name: fmt.Sprintf("%d shell provisioners", len(r.shell)), Prepare: r.prepare, Run: r.runShell, Check: r.check},
	}}
	return c.Run(ctx)
}

func (r *race) prepare(ctx context.Context) error {
	node, err := r.next(ctx)
	if err != nil {
		return err
	}
	r.sessions.node = node
	return r.sessions.prepare(ctx, "")
}

func (r *race) runBlock(ctx context.Context) (contest.Counts, error) {
	return r.bench.provision(ctx, r.sessions.node, r.source)
}

func (r *race) runShell(ctx context.Context) (contest.Counts, error) {
	for _, step := range r.shell {
		if err := r.sessions.node.Shell(ctx, step.lines); err != nil {
			return nil, fmt.Errorf("the step %s: %w", step.name, err)
		}
	}
	return nil, nil
}

// check says whether the machine is as it should be.
func (r *race) check(ctx context.Context) (contest.Counts, error) {
	counts, err := r.sessions.check(ctx, "")
	return counts, errors.Join(err, r.laid.compare(ctx, r.sessions.node))
}

// checkBlock says too whether the block did everything anew.
func (r *race) checkBlock(ctx context.Context) (contest.Counts, error) {
	var err error
	if r.last, err = r.bench.readReport(); err != nil {
		return nil, err
	}
	if err := r.laid.sameSteps(r.last, r.packages); err != nil {
		return nil, err
	}
	return r.check(ctx)
}

// steps shows where the agent's last run spent its time.
func (r *race) steps() report.Table {
	t := report.Table{Title: "where the last block's agent spent its time", Head: []string{"step", "ms"}}
	for _, o := range r.last.Outcomes {
		if len(o.Actions) > 0 {
			t.Rows = append(t.Rows, []string{o.Item, fmt.Sprint(o.Milliseconds)})
		}
	}
	return t
}
