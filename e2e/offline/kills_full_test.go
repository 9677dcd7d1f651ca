//go:build e2e && full

package offline_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// TestBuildsAreKilled kills builds at random moments. Nothing of a build stays, and the base
// image is as it was.
func TestBuildsAreKilled(t *testing.T) {
	b := open(t)
	folder := t.TempDir()
	base, made := filepath.Join(folder, "base.raw"), filepath.Join(folder, "node.raw")
	require.NoError(t, machine.MakeDisk(b.Ctx, b.Root, base))
	before := testkit.Sum(t, base)
	build := func() (*exec.Cmd, io.ReadCloser) {
		cmd := b.build(t, base, "-o", made)
		said, err := cmd.StderrPipe()
		require.NoError(t, err)
		return cmd, said
	}
	began := time.Now()
	whole, said := build()
	require.NoError(t, whole.Start())
	_, _ = io.Copy(io.Discard, said)
	require.NoError(t, whole.Wait())
	takes := time.Since(began)
	require.NoError(t, os.Remove(made))
	for range 50 {
		cmd, said := build()
		require.NoError(t, cmd.Start())
		at := rand.N(takes)
		kill := time.AfterFunc(at, func() { _ = cmd.Process.Kill() })
		_, _ = io.Copy(io.Discard, said) // until nobody can write
		failed := cmd.Wait()
		t.Logf("after %v: %v", at, failed)
		kill.Stop()
		require.NoError(t, os.RemoveAll(made)) // of a build that was faster
		require.NoError(t, machine.Poll(b.Ctx, func() error {
			out, err := exec.CommandContext(b.Ctx, "sh", "-c", `losetup --list --noheadings --output BACK-FILE
cat /proc/self/mountinfo; pgrep --list-full eksnode || true`).Output()
			if strings.Contains(string(out), folder) {
				return fmt.Errorf("something of the build stays: %s", out)
			}
			return err
		}))
		assert.Equal(t, []string{"base.raw", "cache"}, testkit.Names(t, folder))
	}
	assert.Equal(t, before, testkit.Sum(t, base), "the base image")
}
