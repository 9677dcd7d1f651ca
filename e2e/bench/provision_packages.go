package main

import (
	"context"
	"errors"

	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/bed"
	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/contest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/report"
)

func packagesBenchmark() benchmark {
	return benchmark{
		name:   "provision-packages",
		about:  "the same with the packages to install, in the same apt-get commands",
		rounds: 2,
		run:    runPackages,
	}
}

func runPackages(ctx context.Context, b *bench, rounds int) (section report.Section, err error) {
	n, err := b.provisioned(ctx)
	if err != nil {
		return section, err
	}
	var current *bed.Node
	closeCurrent := func() error {
		if current == nil {
			return nil
		}
		last := current
		current = nil
		return last.Close()
	}
	defer func() { err = errors.Join(err, closeCurrent()) }()
	r := &race{bench: b, name: "a new machine each time", source: n.source, laid: n.laid, packages: true,
		next: func(ctx context.Context) (*bed.Node, error) {
			if err := closeCurrent(); err != nil {
				return nil, err
			}
			var err error
			current, err = b.boot(ctx)
			return current, err
		}}
	outcome, err := r.run(ctx, rounds)
	return report.Section{
		Contests: []contest.Outcome{outcome},
		Tables:   []report.Table{r.steps()},
		Notes:    []string{"packages come from a mirror of the archive in the lab, without delay, and take most of the time on both sides"},
	}, err
}
