package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
)

// The line of the benchmark.
const (
	latency        = 20 * time.Millisecond
	bytesPerSecond = 50 << 20
)

// Cost is what one run took.
type Cost struct {
	Wall   time.Duration `json:"wall_ns"`
	CPU    time.Duration `json:"cpu_ns"`
	Memory int64         `json:"memory_bytes"` // of the largest process, at its largest
}

// Result is the medians of all rounds.
type Result struct {
	Bytes  int64 `json:"bytes"` // that are downloaded
	Serial Cost  `json:"serial"`
	Ours   Cost  `json:"ours"`
}

// Wall and CPU are ours as parts of the serial run's.
func (r Result) Wall() float64 { return float64(r.Ours.Wall) / float64(r.Serial.Wall) }

// CPU is our processor time as a part of the serial run's.
func (r Result) CPU() float64 { return float64(r.Ours.CPU) / float64(r.Serial.CPU) }

func (r Result) String() string {
	return fmt.Sprintf(`%d MB in %d files; %s before each answer, %d MiB/s a connection
curl, sha256sum, tar  %6.2f s wall  %5.2f s CPU  %4d MiB
eksnode               %6.2f s wall  %5.2f s CPU  %4d MiB
ratio                 %6.3f         %6.3f
`, r.Bytes/1e6, len(assets()), latency, bytesPerSecond>>20,
		r.Serial.Wall.Seconds(), r.Serial.CPU.Seconds(), r.Serial.Memory>>20,
		r.Ours.Wall.Seconds(), r.Ours.CPU.Seconds(), r.Ours.Memory>>20, r.Wall(), r.CPU())
}

// Measure lays the assets into a mirror and lets both contestants fetch them so
// many times in turn. program is this command.
func Measure(ctx context.Context, program string, rounds int) (Result, error) {
	folder, err := os.MkdirTemp("", "eksnode-fetchbench-*")
	if err != nil {
		return Result{}, fmt.Errorf("making a folder for the mirror: %w", err)
	}
	defer os.RemoveAll(folder)
	result := Result{}
	if result.Bytes, err = lay(ctx, filepath.Join(folder, "mirror")); err != nil {
		return Result{}, err
	}
	server, err := mirror.Serve(ctx, "127.0.0.1:0", filepath.Join(folder, "mirror"), mirror.Options{BytesPerSecond: bytesPerSecond, Latency: latency})
	if err != nil {
		return Result{}, err
	}
	defer server.Close()
	var serial, ours []Cost
	for range rounds {
		cost, err := run(ctx, folder, "bash", "-c", serialScript(server.URL()))
		if err != nil {
			return Result{}, err
		}
		serial = append(serial, cost)
		if cost, err = run(ctx, folder, program, "-install", server.URL(), "-into", "."); err != nil {
			return Result{}, err
		}
		ours = append(ours, cost)
	}
	result.Serial, result.Ours = medians(serial), medians(ours)
	return result, nil
}

// run runs a contestant in an empty folder.
func run(ctx context.Context, folder string, argv ...string) (Cost, error) {
	place, err := os.MkdirTemp(folder, "into-*")
	if err != nil {
		return Cost{}, fmt.Errorf("making the contestant's folder: %w", err)
	}
	defer os.RemoveAll(place)
	syscall.Sync() // what others wrote is not this one's to wait for
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var said bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = place, &said, &said
	started := time.Now()
	err = cmd.Run()
	wall := time.Since(started)
	if err != nil {
		return Cost{}, fmt.Errorf("running %s: %w: %s", argv[0], err, said.String())
	}
	cost := Cost{Wall: wall, CPU: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		cost.Memory = usage.Maxrss << 10
	}
	return cost, nil
}

func medians(all []Cost) Cost {
	return Cost{
		Wall:   median(all, func(c Cost) time.Duration { return c.Wall }),
		CPU:    median(all, func(c Cost) time.Duration { return c.CPU }),
		Memory: median(all, func(c Cost) int64 { return c.Memory }),
	}
}

func median[T cmp.Ordered](all []Cost, of func(Cost) T) T {
	var values []T
	for _, c := range all {
		values = append(values, of(c))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// download is an asset as provisioning has it.
func (m made) download(url string) asset.Download {
	d := asset.Download{
		ID: m.name, Version: "1.0.0", VersionSource: "versions", Kind: asset.Program, Target: "/usr/bin/" + m.name,
		URL: url + "/" + m.place(), SumURL: url + "/" + m.place() + ".sha256", SumForm: asset.Listed,
	}
	if m.archive {
		d.Kind, d.Target = asset.TarGz, "/opt/"+m.name
	}
	return d
}

// installAll is our contestant: what provisioning does, one asset after the
// other, each asked for while the one before is being laid down.
func installAll(ctx context.Context, url, into string) error {
	root, err := filepath.Abs(into)
	if err != nil {
		return fmt.Errorf("finding the contestant's folder: %w", err)
	}
	h, err := host.Mounted(root)
	if err != nil {
		return err
	}
	defer h.Close()
	fetcher := asset.NewFetcher(asset.UsualPatience())
	all := assets()
	for i, a := range all {
		if i+1 < len(all) {
			fetcher.Expect(all[i+1].download(url))
		}
		d := a.download(url)
		if _, err := asset.Install(ctx, h, fetcher, d, func(int64, int64) {}); err != nil {
			return err
		}
	}
	return nil
}
