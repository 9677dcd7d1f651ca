//go:build e2e

package offline_test

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/shape"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// TestBuild turns a disk of the base system into one of a node, without a machine, and
// starts a machine from it.
func TestBuild(t *testing.T) {
	build(t, lab.System{})
}

// The same with the package managers of other distributions.
func TestBuildOnShapes(t *testing.T) {
	shapes := shape.All()
	for _, name := range []string{"amazonlinux2023", "arch"} {
		s, ok := shapes[name]
		require.True(t, ok, name)
		t.Run(name, func(t *testing.T) { build(t, lab.System{Shape: &s}) })
	}
}

func build(t *testing.T, system lab.System) {
	b := open(t)
	b.Use(t, system)
	folder := t.TempDir()
	base, made := filepath.Join(folder, "base.raw"), filepath.Join(folder, "node.raw")
	require.NoError(t, machine.MakeDisk(b.Ctx, b.Root, base))
	before := testkit.Sum(t, base)
	run := func(more ...string) (string, int) {
		t.Helper()
		cmd := b.build(t, base, more...)
		out, _ := cmd.CombinedOutput() // the exit code says more
		return string(out), cmd.ProcessState.ExitCode()
	}
	if system.Shape == nil {
		faults(t, b, run, base, made)
	}
	began := time.Now()
	args := []string{"--disk-size", "8", "-o", made, "--report", filepath.Join(folder, "report.json")}
	if system.Shape == nil {
		args = append(args, "--check-reproducible")
	}
	said, code := run(args...)
	require.Zero(t, code, said)
	t.Log(said)
	t.Logf("built in %v", time.Since(began))
	assert.Equal(t, before, testkit.Sum(t, base), "the base image")
	testkit.Run(t, "sfdisk", "--verify", made)

	report := testkit.JSON[struct{ Provision, Scrub plan.Report }](t,
		testkit.Content(t, filepath.Join(folder, "report.json")))
	assert.Equal(t, plan.OK, report.Scrub.Result)

	testkit.Run(t, lab.Eksnode(t), "audit", "--disk", made)
	n := b.Start(t, machine.Config{Image: made, InstanceID: "i-offline", ReadyWithin: 2 * time.Minute})
	assert.Equal(t, "Kubernetes v"+lab.Kubelet, n.Sh(t, "kubelet --version"))
	assert.Empty(t, testkit.Glob(t, filepath.Join(folder, ".eksnode*")))
}

// faults kills a build, and starts builds that are refused. Nothing stays.
func faults(t *testing.T, b *bench, run func(...string) (string, int), base, made string) {
	folder := filepath.Dir(base)
	t.Run("killed", func(t *testing.T) {
		cmd := b.build(t, base, "-o", made)
		said, err := cmd.StderrPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		progress := bufio.NewScanner(said)
		for progress.Scan() && !strings.HasPrefix(progress.Text(), "packages: ") {
		}
		require.NoError(t, cmd.Process.Kill())
		_, _ = io.Copy(io.Discard, said) // until nobody can write
		require.Error(t, cmd.Wait())
		require.NoError(t, machine.Poll(b.Ctx, func() error {
			out, err := exec.CommandContext(b.Ctx, "losetup", "--list", "--noheadings", "--output", "BACK-FILE").Output()
			if strings.Contains(string(out), folder) {
				return fmt.Errorf("loop devices stay: %s", out)
			}
			return err
		}))
		assert.Equal(t, []string{"base.raw", "cache"}, testkit.Names(t, folder))
	})
	t.Run("package mirror away", func(t *testing.T) { // in the network of this machine
		out, err := exec.CommandContext(b.Ctx, lab.Eksnode(t), append([]string{
			"build", "--cache-folder", filepath.Join(folder, "cache"), "--base", base, "-o", made,
		}, b.options...)...).CombinedOutput()
		require.Error(t, err)
		assert.Contains(t, string(out), "could not be reached; check the machine's network, proxy and repositories")
		assert.NoFileExists(t, made)
	})
	for why, more := range map[string][]string{
		"cannot become smaller": {"--disk-size", "1", "-o", made},
		"its checksum is":       {"--base-checksum", strings.Repeat("0", 64), "-o", made},
		"exists; name another":  {"-o", base},
		"images":                {"-o", made, "--images", "docker.io/library/busybox:1.37"},
	} {
		said, code := run(more...)
		assert.NotZero(t, code, said)
		assert.Contains(t, said, why)
		assert.NoFileExists(t, made)
	}
}
