package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/bed"
	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/contest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/report"
	"github.com/eksnode/packer-plugin-eksnode/plugin/scrub"
)

func agentBenchmark() benchmark {
	return benchmark{
		name:   "agent",
		about:  "an eksnode-scrub block of 100 steps against 100 single remote commands that do the same",
		rounds: 4,
		run:    runAgent,
	}
}

// leftover is a group of files that a rule of the scrub removes one by one.
type leftover struct {
	rule, folder string
	count        int
}

// leftovers are 100 files and folders of an old node.
var leftovers = []leftover{
	{"kubelet-pki", "/var/lib/kubelet/pki", 20},
	{"kubelet-checkpoints", "/var/lib/kubelet/checkpoints", 20},
	{"kubelet-pods", "/var/lib/kubelet/pods", 20},
	{"cni-config", "/etc/cni/net.d", 20},
	{"cluster-ca", "/etc/kubernetes/pki", 15},
	{"static-pods", "/etc/kubernetes/manifests", 5},
}

func leftoverPaths() []string {
	var all []string
	for _, l := range leftovers {
		for i := range l.count {
			all = append(all, fmt.Sprintf("%s/old-%02d", l.folder, i))
		}
	}
	return all
}

func runAgent(ctx context.Context, b *bench, rounds int) (report.Section, error) {
	node, err := b.boot(ctx)
	if err != nil {
		return report.Section{}, err
	}
	trip, err := node.RoundTrip(ctx)
	if err != nil {
		return report.Section{}, err
	}
	paths := leftoverPaths()
	s := &sessions{node: node}
	block := contest.Contestant{
		Name:    "eksnode-scrub block",
		Prepare: func(ctx context.Context) error { return s.prepare(ctx, layLeftovers(paths)) },
		Run:     func(ctx context.Context) (contest.Counts, error) { return b.scrub(ctx, node) },
		Check: func(ctx context.Context) (contest.Counts, error) {
			r, err := b.readReport()
			if err != nil {
				return nil, err
			}
			if r.Totals.Actions != len(paths) {
				return nil, fmt.Errorf("its plan had %d steps, not %d", r.Totals.Actions, len(paths))
			}
			return s.check(ctx, noLeftovers(paths))
		},
	}
	commands := contest.Contestant{
		Name:    "100 single commands",
		Prepare: func(ctx context.Context) error { return s.prepare(ctx, layLeftovers(paths)) },
		Run: func(ctx context.Context) (contest.Counts, error) {
			for _, p := range paths {
				if err := node.Command(ctx, "sudo -n -- rm -rf "+p); err != nil {
					return nil, err
				}
			}
			return nil, nil
		},
		Check: func(ctx context.Context) (contest.Counts, error) { return s.check(ctx, noLeftovers(paths)) },
	}
	outcome, err := contest.Contest{
		Name: "removing 100 leftovers of an old node", Contestants: []contest.Contestant{block, commands},
		Rounds: rounds, Now: b.now, Log: b.progress,
	}.Run(ctx)
	if err != nil {
		return report.Section{}, err
	}
	return report.Section{
		Contests: []contest.Outcome{outcome},
		Facts:    map[string]float64{"measured_round_trip_ms": float64(trip.Microseconds()) / 1000},
		Goals: []report.Goal{
			report.NewGoal("time of 100 steps to that of 100 commands", outcome.Ratio(1), 0.08),
			report.NewGoal("SSH sessions of a whole block", outcome.Contestants[0].Counts["sessions"], mostSessions),
		},
		Notes: []string{
			fmt.Sprintf("a round trip over SSH on the line was measured as %.1f ms", float64(trip.Microseconds())/1000),
			"the block's time has all of it: the probe, the agent's upload, its start, planning, doing, verifying, the report; both run over the same open connection, through the SDK's SSH communicator and Packer's RPC",
			"sessions are counted by the machine's sshd (its log at level VERBOSE); each contestant leaves none of the 100, and the report must have 100 actions",
		},
	}, node.Close()
}

// mostSessions is how many SSH sessions a whole provisioner block may open.
const mostSessions = 3

// scrub runs a real eksnode-scrub block that is told the rules of the leftovers
// and no others: the machine is used again.
func (b *bench) scrub(ctx context.Context, node *bed.Node) (contest.Counts, error) {
	var rules []any
	for _, l := range leftovers {
		rules = append(rules, l.rule)
	}
	return b.block(ctx, node, new(scrub.Provisioner), map[string]any{"rules": rules})
}

func layLeftovers(paths []string) string {
	var text strings.Builder
	for _, l := range leftovers {
		fmt.Fprintf(&text, "mkdir -p %s\n", l.folder)
	}
	for _, p := range paths {
		if strings.Contains(p, "/pods/") {
			fmt.Fprintf(&text, "mkdir -p %[1]s/volumes\necho secret >%[1]s/volumes/token\n", p)
		} else {
			fmt.Fprintf(&text, "echo old >%s\n", p)
		}
	}
	return text.String()
}

func noLeftovers(paths []string) string {
	return "for p in " + strings.Join(paths, " ") + "; do if [ -e $p ]; then echo $p is still there; exit 1; fi; done"
}
