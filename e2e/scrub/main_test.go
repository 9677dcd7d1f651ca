//go:build e2e

package scrub_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/watch"
)

func TestMain(m *testing.M) {
	watch.Become()
	os.Exit(m.Run())
}

// eksnode is the command, built from this tree, static as it is released.
func eksnode(t *testing.T) string {
	t.Helper()
	path, err := build()
	require.NoError(t, err)
	return path
}

// build is run once; the folder is the go command's own cache of temporary
// files, so that nothing has to be removed.
var build = sync.OnceValues(func() (string, error) {
	folder, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "eksnode", "scrub-test", "eksnode")
	cmd := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "github.com/eksnode/packer-plugin-eksnode/cmd/eksnode")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the command: %w: %s", err, out)
	}
	return path, nil
})

// run runs the command and returns what it printed and its exit code.
func run(t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), eksnode(t), args...)
	out, _ := cmd.CombinedOutput() // the code says more than the error
	require.NotNil(t, cmd.ProcessState, "%s", out)
	return string(out), cmd.ProcessState.ExitCode()
}
