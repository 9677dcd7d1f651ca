//go:build e2e

package offline_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// TestBuild turns a disk of the base system into one of a node, without a machine, and
// starts a machine from it.
func TestBuild(t *testing.T) {
	b := open(t)
	folder := t.TempDir()
	base, made := filepath.Join(folder, "base.raw"), filepath.Join(folder, "node.raw")
	require.NoError(t, machine.MakeDisk(b.Ctx, b.Root, base))
	before := lab.Content(t, base)
	build := func(more ...string) (string, int) {
		t.Helper()
		cmd := b.inNetwork(append(append([]string{lab.Eksnode(t), "build", "--cache-folder", filepath.Join(folder, "cache")}, b.options...), more...))
		out, _ := cmd.CombinedOutput() // the exit code says more
		return string(out), cmd.ProcessState.ExitCode()
	}
	began := time.Now()
	said, code := build("--base", base, "--disk-size", "8", "-o", made, "--report", filepath.Join(folder, "report.json"))
	require.Zero(t, code, said)
	t.Log(said)
	t.Logf("built in %v", time.Since(began))
	assert.Equal(t, before, lab.Content(t, base), "the base image")
	out, err := exec.CommandContext(b.Ctx, "sfdisk", "--verify", made).CombinedOutput()
	require.NoError(t, err, "%s", out)

	var report struct{ Provision, Scrub plan.Report }
	text, err := os.ReadFile(filepath.Join(folder, "report.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &report))
	assert.Equal(t, plan.OK, report.Scrub.Result)

	out, err = exec.CommandContext(b.Ctx, lab.Eksnode(t), "audit", "--disk", made).CombinedOutput()
	require.NoError(t, err, "%s", out)
	n := b.Start(t, machine.Config{Image: made, InstanceID: "i-offline", ReadyWithin: 2 * time.Minute})
	assert.Equal(t, "Kubernetes v"+lab.Kubelet, n.Sh(t, "kubelet --version"))
	left, err := filepath.Glob(filepath.Join(folder, ".eksnode*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}
