package main

import (
	"context"
	"fmt"

	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/contest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/report"
)

// pacedRate is what one connection to an object store carries, in bytes per
// second.
const pacedRate = 50e6

func pacedBenchmark() benchmark {
	return benchmark{
		name:   "provision-paced",
		about:  fmt.Sprintf("the same with %.0f MB/s for each connection to the mirror", pacedRate/1e6),
		rounds: 2,
		run: func(ctx context.Context, b *bench, rounds int) (report.Section, error) {
			n, err := b.provisioned(ctx)
			if err != nil {
				return report.Section{}, err
			}
			source, err := b.opened.Mirror(ctx, n.mirror, pacedRate)
			if err != nil {
				return report.Section{}, err
			}
			r := &race{bench: b, name: "the same machine again and again", source: source, laid: n.laid, next: n.again}
			outcome, err := r.run(ctx, rounds)
			return report.Section{Contests: []contest.Outcome{outcome}}, err
		},
	}
}
