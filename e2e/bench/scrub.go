package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/report"
	"github.com/eksnode/packer-plugin-eksnode/e2e/scrub/scale"
)

// commandFile is where make build leaves the command.
const commandFile = "bin/eksnode"

func scrubBenchmark() benchmark {
	return benchmark{
		name:  "scrub",
		about: "eksnode scrub against rm -rf of the same trees, and against virt-sysprep",
		run:   runScrub,
	}
}

// runScrub measures as often as package scale finds necessary for each size.
func runScrub(ctx context.Context, b *bench, _ int) (report.Section, error) {
	command, err := filepath.Abs(commandFile)
	if err != nil {
		return report.Section{}, fmt.Errorf("finding the command: %w", err)
	}
	agent := filepath.Join(b.folder, "eksnode")
	if err := unpackAgent(agent); err != nil {
		return report.Section{}, err
	}
	return scale.Run(ctx, b.progress, scale.Options{Eksnode: command, Agent: agent})
}
