package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/binsize"
	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/report"
)

func fetchBenchmark() benchmark {
	return benchmark{
		name:   "fetch",
		about:  "fetching, verifying and unpacking 400 MB of assets against curl, sha256sum and tar, one after the other",
		rounds: 5,
		run:    runFetch,
	}
}

// cost is what a contestant took; see package fetchbench.
type cost struct {
	Wall   time.Duration `json:"wall_ns"`
	CPU    time.Duration `json:"cpu_ns"`
	Memory int64         `json:"memory_bytes"`
}

func runFetch(ctx context.Context, b *bench, rounds int) (report.Section, error) {
	module, err := moduleFolder(ctx)
	if err != nil {
		return report.Section{}, err
	}
	program := filepath.Join(b.folder, "fetchbench")
	if err := binsize.Build(ctx, module, "./e2e/mirror/fetchbench", program, true); err != nil {
		return report.Section{}, err
	}
	cmd := exec.CommandContext(ctx, program, "-json", "-rounds", fmt.Sprint(rounds))
	cmd.Stderr = b.progress
	text, err := cmd.Output()
	if err != nil {
		return report.Section{}, fmt.Errorf("running fetchbench: %w", err)
	}
	var r struct{ Serial, Ours cost }
	if err := json.Unmarshal(text, &r); err != nil {
		return report.Section{}, fmt.Errorf("reading what fetchbench measured: %w", err)
	}
	row := func(name string, c cost) []string {
		return []string{name, fmt.Sprintf("%.2f", c.Wall.Seconds()), fmt.Sprintf("%.2f", c.CPU.Seconds()), fmt.Sprint(c.Memory >> 20)}
	}
	return report.Section{
		Facts: map[string]float64{
			"fetch_wall_ratio": float64(r.Ours.Wall) / float64(r.Serial.Wall), "fetch_cpu_ratio": float64(r.Ours.CPU) / float64(r.Serial.CPU),
			"fetch_memory_mib": float64(r.Ours.Memory >> 20),
		},
		Tables: []report.Table{{
			Title: fmt.Sprintf("medians of %d rounds", rounds), Head: []string{"", "s", "s of CPU", "MiB"},
			Rows: [][]string{row("eksnode", r.Ours), row("curl, sha256sum, tar", r.Serial)},
		}},
		Goals: []report.Goal{
			report.NewGoal("time to that of curl, sha256sum and tar", float64(r.Ours.Wall)/float64(r.Serial.Wall), 0.20),
			report.NewGoal("CPU time to theirs", float64(r.Ours.CPU)/float64(r.Serial.CPU), 0.6),
			report.NewGoal("MiB of memory", float64(r.Ours.Memory>>20), 200),
		},
		Notes: []string{"the mirror is on loopback, answers after 20 ms and sends 50 MiB/s over each connection"},
	}, nil
}
