//go:build e2e

// Package bench measures what eksnode claims about speed, compared with today's
// usual ways:
//
//	make bench
//	make bench BENCH='-bench Scrub/ext4 -benchtime 9x'
//
// Each benchmark runs two ways to the same end state in turn. After each run it
// checks the end state. It reports the ratio of the medians: ratios are
// comparable between machines, times are not. A figure NAME has its goal, the
// upper limit, in NAME-goal. A missed goal is not a failure, because other load
// on the machine also affects the figure.
package bench

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/plugin/embedded"
)

// TestMain runs the benchmarks. With the environment variable of a benchmark,
// it runs as the measured program instead.
func TestMain(m *testing.M) {
	if url := os.Getenv(fetchFrom); url != "" {
		if err := fetchAll(context.Background(), url); err != nil {
			panic(err)
		}
		return
	}
	if text := os.Getenv(uploads); text != "" {
		if err := uploadDisk(context.Background(), text); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// figures are the measurements of a run, by unit.
type figures map[string]float64

// way is one of the two compared ways.
type way struct {
	ready func()         // restores the start state; not timed
	run   func() figures // is timed
	check func() figures // fails unless the end state is right; not timed
}

// race runs both ways once in each of b.Loop's rounds, times over. They take
// turns, A B, B A, so that a machine that slows down favours neither. race
// reports the ratio of their median seconds as "x-of-THEIRS", and returns the
// medians of all their figures.
func race(b *testing.B, times int, name string, most float64, ours, theirs way) (our, their figures) {
	b.Helper()
	counted := [2]map[string][]float64{{}, {}}
	for round := 0; b.Loop(); {
		b.StopTimer()
		for range times {
			for turn := range 2 {
				i := (turn + round) % 2
				w := []way{ours, theirs}[i]
				w.ready()
				b.StartTimer()
				begin := time.Now()
				ran := w.run()
				seconds := time.Since(begin).Seconds()
				b.StopTimer()
				for _, some := range []figures{{"s": seconds}, ran, w.check()} {
					for unit, value := range some {
						counted[i][unit] = append(counted[i][unit], value)
					}
				}
			}
			round++
		}
		b.StartTimer()
	}
	our, their = medians(counted[0]), medians(counted[1])
	b.ReportMetric(0, "ns/op") // the time of both together is meaningless
	b.ReportMetric(our["s"], "s")
	b.ReportMetric(their["s"], "s-of-"+name)
	goal(b, "x-of-"+name, our["s"]/their["s"], most)
	return our, their
}

func medians(counted map[string][]float64) figures {
	all := figures{}
	for unit, values := range counted {
		slices.Sort(values)
		all[unit] = (values[(len(values)-1)/2] + values[len(values)/2]) / 2
	}
	return all
}

// goal reports a figure and its upper limit.
func goal(b *testing.B, unit string, value, most float64) {
	b.ReportMetric(value, unit)
	b.ReportMetric(most, unit+"-goal")
}

// noFigures is the run or check of a way without figures.
func noFigures() figures { return nil }

// measured runs a program and counts its CPU time and peak memory. time(1)
// starts the program: a direct child of this process would start with this
// process's memory as its peak, from before exec.
func measured(b *testing.B, folder string, env []string, args ...string) figures {
	b.Helper()
	peak := filepath.Join(b.TempDir(), "peak")
	cmd := exec.CommandContext(b.Context(), "/usr/bin/time", append([]string{"-f", "%M", "-o", peak}, args...)...)
	cmd.Dir, cmd.Env = folder, env
	out, err := cmd.CombinedOutput()
	require.NoError(b, err, "%.200q: %.2000s", args, out)
	text, err := os.ReadFile(peak)
	require.NoError(b, err)
	kib, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	require.NoError(b, err)
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return figures{"CPU-s": used.Seconds(), "MiB": kib / 1024}
}

// sh runs a script on this machine, also during cleanup, and returns its
// output.
func sh(b *testing.B, script string, args ...string) string {
	b.Helper()
	out, err := exec.Command("sh", append([]string{"-euc", script, "sh"}, args...)...).CombinedOutput()
	require.NoError(b, err, "%s: %.2000s", script, out)
	return strings.TrimSpace(string(out))
}

// ownMounts gives the benchmark and its programs a mount namespace. Without
// one, machines that start at the same time would keep copies of its mounts.
func ownMounts(b *testing.B) {
	b.Helper()
	runtime.LockOSThread() // never unlocked: the namespace ends with the thread
	require.NoError(b, unix.Unshare(unix.CLONE_NEWNS))
	require.NoError(b, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
}

// install installs Debian packages on this machine.
func install(b *testing.B, packages ...string) {
	b.Helper()
	require.NoError(b, base.Install(b.Context(), os.Stderr, append(packages, "curl", "mount", "time")...))
}

// agent unpacks the agent that the plugin contains.
func agent(b *testing.B) string {
	b.Helper()
	packed, err := embedded.Agent(runtime.GOARCH)
	require.NoError(b, err)
	name := filepath.Join(b.TempDir(), "eksnode")
	write(b, name+".gz", packed)
	sh(b, `gunzip "$1.gz"`, name)
	return name
}

// write writes a file, such as a program, and makes its folder.
func write(b *testing.B, name string, content []byte) {
	b.Helper()
	require.NoError(b, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(b, os.WriteFile(name, content, 0o755))
}
