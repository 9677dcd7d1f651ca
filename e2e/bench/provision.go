package main

import (
	"context"
	"fmt"

	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/contest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/report"
)

func provisionBenchmark() benchmark {
	return benchmark{
		name:   "provision",
		about:  "an eksnode block against a shell provisioner per step with curl, sha256sum and tar; the packages are in place",
		rounds: 4,
		run:    runProvision,
	}
}

func runProvision(ctx context.Context, b *bench, rounds int) (report.Section, error) {
	n, err := b.provisioned(ctx)
	if err != nil {
		return report.Section{}, err
	}
	r := &race{bench: b, name: "the same machine again and again", source: n.source, laid: n.laid, next: n.again}
	outcome, err := r.run(ctx, rounds)
	if err != nil {
		return report.Section{}, err
	}
	return report.Section{
		Contests: []contest.Outcome{outcome},
		Tables:   []report.Table{r.steps()},
		Goals: []report.Goal{
			report.NewGoal("time to that of shell provisioners", outcome.Ratio(1), 0.5),
			report.NewGoal("SSH sessions of a whole block", outcome.Contestants[0].Counts["sessions"], mostSessions),
		},
		Notes: []string{
			fmt.Sprintf("the shell contestant is made from the block's own plan, so that both lay down the same: a provisioner for each of its steps that does something (%s), each with the four sessions that Packer's own shell provisioner has; every run is checked for the same %d files and folders by content, mode and owner, and for the same units enabled",
				r.shellNames(), len(n.laid.watched())),
			"only the block leaves eksnode itself and the image's manifest, verifies each step afterwards and flushes each file to disk; the shell does none of it. Starting Packer's provisioner processes (one against one for each step) is in neither time",
			"both fetch the same files from the same mirror, the line to which has the same round trip and no limit of its own",
			"before each run, what was laid down is removed and that flushed to disk",
		},
	}, nil
}
