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
	"fmt"
	"math/rand/v2"
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
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/plugin/scrub"
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

// measured runs a program and counts its CPU time, the bytes that it writes to files, and
// the peak memory of its largest process. time(1)
// starts the program: a direct child of this process would start with this
// process's memory as its peak, from before exec.
func measured(b *testing.B, folder string, env []string, args ...string) figures {
	b.Helper()
	peak := filepath.Join(b.TempDir(), "peak")
	cmd := exec.CommandContext(b.Context(), "/usr/bin/time", append([]string{"-f", "%M %O", "-o", peak}, args...)...)
	cmd.Dir, cmd.Env = folder, env
	testkit.Output(b, cmd)
	var kib, sectors float64
	_, err := fmt.Sscan(testkit.Content(b, peak), &kib, &sectors)
	require.NoError(b, err)
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return figures{"CPU-s": used.Seconds(), "MiB": kib / 1024, "written": sectors * 512}
}

// sh runs a script on this machine, also during cleanup, and returns its
// output.
func sh(b *testing.B, script string, args ...string) string {
	b.Helper()
	out := testkit.Run(b, "sh", append([]string{"-euc", script, "sh"}, args...)...)
	return strings.TrimSpace(out)
}

// ownMounts gives the benchmark and its programs a mount namespace. Without
// one, machines that start at the same time would keep copies of its mounts.
func ownMounts(b *testing.B) {
	b.Helper()
	runtime.LockOSThread() // never unlocked: the namespace ends with the thread
	require.NoError(b, unix.Unshare(unix.CLONE_NEWNS))
	require.NoError(b, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
}

func install(b *testing.B, packages ...string) {
	b.Helper()
	require.NoError(b, base.Install(b.Context(), os.Stderr, append(packages, "curl", "mount", "time")...))
}

// write writes a file, such as a program, and makes its folder.
func write(b *testing.B, name string, content []byte) {
	b.Helper()
	require.NoError(b, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(b, os.WriteFile(name, content, 0o755))
}

// leftovers returns 100 files and folders of an old node, which rules remove
// one by one.
func leftovers() (rules []any, paths []string) {
	for _, l := range []struct {
		rule, folder string
		count        int
	}{
		{"kubelet-pki", "/var/lib/kubelet/pki", 20},
		{"kubelet-checkpoints", "/var/lib/kubelet/checkpoints", 20},
		{"kubelet-pods", "/var/lib/kubelet/pods", 20},
		{"cni-config", "/etc/cni/net.d", 20},
		{"cluster-ca", "/etc/kubernetes/pki", 15},
		{"static-pods", "/etc/kubernetes/manifests", 5},
	} {
		rules = append(rules, l.rule)
		for i := range l.count {
			paths = append(paths, fmt.Sprintf("%s/old-%02d", l.folder, i))
		}
	}
	return rules, paths
}

// BenchmarkSteps removes 100 leftovers: with one eksnode-scrub block, and with
// one remote command for each. The block's time includes the probe, the agent's
// upload and start, planning, removal, verification and the report.
func BenchmarkSteps(b *testing.B) {
	n := openLab(b).boot()
	rules, paths := leftovers()
	all := strings.Join(paths, " ")
	ready := func() {
		n.ready("for p in " + all + `; do
	mkdir -p "${p%/*}"
	case $p in
	*/pods/*) mkdir -p "$p/volumes"; echo secret >"$p/volumes/token" ;;
	*) echo old >"$p" ;;
	esac
done`)
	}
	check := func() figures {
		return n.check("for p in " + all + "; do if [ -e $p ]; then echo $p is still there; exit 1; fi; done")
	}
	ours, _ := race(b, 1, "100-commands", 0.08,
		way{ready, func() figures {
			n.block(new(scrub.Provisioner), map[string]any{"rules": rules})
			return nil
		}, func() figures {
			require.Equal(b, len(paths), n.did().Totals.Actions)
			return check()
		}},
		way{ready, func() figures {
			for _, p := range paths {
				n.command("sudo -n -- rm -rf " + p)
			}
			return nil
		}, check})
	goal(b, "sessions", ours["sessions"], 3)
}

// fetchFrom is the environment variable that makes this program download assets
// into the working folder, from the mirror in its value.
const fetchFrom = "EKSNODE_BENCH_FETCH_FROM"

// file is an asset with the size and kind of a real node's.
type file struct {
	name    string
	mib     int // contents of an archive
	archive bool
}

// files returns assets of about 400 MB.
func files() []file {
	return []file{
		{"kubelet", 76, false},
		{"kubectl", 57, false},
		{"ecr-credential-provider", 20, false},
		{"aws-iam-authenticator", 50, false},
		{"runc", 12, false},
		{"cni-plugins", 130, true},
		{"containerd", 120, true},
		{"aws-cli", 80, true},
		{"crictl", 40, true},
	}
}

// BenchmarkFetch downloads, verifies and unpacks the assets: with the code of
// provisioning, and with curl, sha256sum and tar one after the other. The
// mirror responds after 20 ms and sends 50 MiB/s over each connection.
func BenchmarkFetch(b *testing.B) {
	install(b)
	folder := b.TempDir()
	lay(b, filepath.Join(folder, "mirror"))
	server := mirror.Serve(b, nil, filepath.Join(folder, "mirror"),
		mirror.Options{BytesPerSecond: 50 << 20, Latency: 2 * oneWay * time.Millisecond})
	into := filepath.Join(folder, "into")
	ready := func() { sh(b, `rm -rf "$1"; mkdir "$1"; sync`, into) }
	check := func() figures { // 5 programs and 10 files of each of 4 archives
		require.Equal(b, "45", sh(b, `find "$1" -type f | wc -l`, into))
		return nil
	}
	ours, theirs := race(b, 1, "curl", 0.20,
		way{ready, func() figures {
			return measured(b, into, append(os.Environ(), fetchFrom+"="+server.URL()), os.Args[0])
		}, check},
		way{ready, func() figures { return measured(b, into, nil, "bash", "-c", curls(server.URL())) }, check})
	goal(b, "CPU-x-of-curl", ours["CPU-s"]/theirs["CPU-s"], 0.6)
	goal(b, "MiB", ours["MiB"], 200)
}

// lay writes the assets and their checksum files. Their bytes compress to about
// two fifths, as programs do.
func lay(b *testing.B, folder string) {
	b.Helper()
	noise := make([]byte, 130<<20)
	for i := range noise {
		if i%16 < 6 {
			noise[i] = byte(rand.Uint32())
		}
	}
	write(b, filepath.Join(folder, "noise"), noise)
	for _, f := range files() {
		script := `head -c "$3M" noise >"$2"`
		if f.archive {
			script = `mkdir t; head -c "$3M" noise >whole; split -n 10 whole t/; tar -C t -I "gzip -1" -cf "$2" .; rm -r t whole`
		}
		sh(b, `cd "$1"; `+script+`; sha256sum "$2" >"$2.sha256"`, folder, f.name, strconv.Itoa(f.mib))
	}
}

// curls is the usual shell script of an image build.
func curls(url string) string {
	script := "set -eu\nmkdir bin\n"
	for _, f := range files() {
		script += fmt.Sprintf("curl -fsS -o %[1]s %[2]s/%[1]s\ncurl -fsS -o sum %[2]s/%[1]s.sha256\nsha256sum --quiet -c sum\nrm sum\n", f.name, url)
		if f.archive {
			script += fmt.Sprintf("mkdir opt-%[1]s\ntar -xzf %[1]s -C opt-%[1]s\nrm %[1]s\n", f.name)
		} else {
			script += fmt.Sprintf("chmod 755 %[1]s\nmv %[1]s bin\n", f.name)
		}
	}
	return script
}

// fetchAll installs the assets one after the other like provisioning: each
// download starts while the asset before it is being installed.
func fetchAll(ctx context.Context, url string) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	h, err := host.Mounted(root)
	if err != nil {
		return err
	}
	defer h.Close()
	var all []asset.Download
	for _, f := range files() {
		d := asset.Download{
			ID: f.name, Version: "1.0.0", VersionSource: "versions", Kind: asset.Program, Target: "/usr/bin/" + f.name,
			URL: url + "/" + f.name, SumURL: url + "/" + f.name + ".sha256", SumForm: asset.Listed,
		}
		if f.archive {
			d.Kind, d.Target = asset.TarGz, "/opt/"+f.name
		}
		all = append(all, d)
	}
	fetcher := asset.NewFetcher(asset.UsualPatience())
	for _, d := range all {
		if _, err := asset.Install(ctx, h, fetcher, d, func(int64, int64) {}); err != nil {
			return err
		}
	}
	return nil
}
