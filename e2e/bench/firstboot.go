package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/binsize"
	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/boot"
	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/contest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/report"
	"github.com/eksnode/packer-plugin-eksnode/plugin/embedded"
)

func firstBootBenchmark() benchmark {
	return benchmark{
		name:   "first-boot",
		about:  "eksnode init against the tool calls of Amazon Linux 2's bootstrap.sh, from user data to the kubelet started",
		rounds: 15,
		run:    runFirstBoot,
	}
}

// mostInit is how much CPU a first boot may take, in milliseconds.
const mostInit = 150

func runFirstBoot(ctx context.Context, b *bench, rounds int) (section report.Section, err error) {
	if err := base.Install(ctx, b.progress, boot.Requirements()...); err != nil {
		return section, err
	}
	folder, err := os.MkdirTemp(b.folder, "boot-")
	if err != nil {
		return section, fmt.Errorf("making a temporary folder: %w", err)
	}
	module, err := moduleFolder(ctx)
	if err != nil {
		return section, err
	}
	standIn, eksnode := filepath.Join(folder, "standin"), filepath.Join(folder, "eksnode")
	if err := binsize.Build(ctx, module, "./e2e/bench/boot/standin", standIn, true); err != nil {
		return section, err
	}
	if err := unpackAgent(eksnode); err != nil {
		return section, err
	}
	race := boot.New(folder, eksnode, standIn)
	defer race.Close()
	outcome, err := contest.Contest{
		Name: "a first boot", Contestants: race.Contestants(), Rounds: rounds, Now: b.now, Log: b.progress,
	}.Run(ctx)
	if err != nil {
		return section, err
	}
	ours, theirs := outcome.Contestants[0].Counts[boot.CPU], outcome.Contestants[1].Counts[boot.CPU]
	return report.Section{
		Contests: []contest.Outcome{outcome},
		Facts:    map[string]float64{"first_boot_cpu_ratio": ours / theirs},
		Goals: []report.Goal{
			report.NewGoal("CPU time of eksnode init to that of bootstrap.sh's tool calls", ours/theirs, 0.10),
			report.NewGoal("time of eksnode init to that of bootstrap.sh's tool calls", outcome.Ratio(1), 0.10),
			report.NewGoal("CPU ms of eksnode init", ours, mostInit),
		},
		Notes: []string{
			"both ask the same metadata service on loopback; systemctl, containerd, the kubelet and the AWS CLI are stand-ins that answer at once, so the seconds that the real CLI loads for are not in bootstrap.sh's time",
			"eksnode is the agent as the plugin carries it, in a fresh root; its time includes the shell that mounts /proc there",
		},
	}, nil
}

// unpackAgent writes the agent for this machine as a program.
func unpackAgent(to string) (err error) {
	packed, err := embedded.Agent(runtime.GOARCH)
	if err != nil {
		return err
	}
	in, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fmt.Errorf("unpacking the agent: %w", err)
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return fmt.Errorf("unpacking the agent: %w", err)
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
