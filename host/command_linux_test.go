package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A cancelled command leaves nothing behind, not even a child that takes no
// SIGTERM and has closed the command's output.
func TestACancelledCommandTakesItsChildrenAlong(t *testing.T) {
	h, err := Live()
	require.NoError(t, err)
	defer h.Close()
	pids := filepath.Join(t.TempDir(), "pids")
	script := `(trap "" TERM; exec >/dev/null 2>&1; exec sleep 60) & echo $! >` + pids + `.part; mv ` + pids + `.part ` + pids + `; wait`
	gone := errors.New("the packer host is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	over := make(chan error)
	go func() {
		_, err := h.Run(ctx, Command{Argv: []string{"sh", "-c", script}})
		over <- err
	}()
	require.Eventually(t, func() bool { _, err := os.Stat(pids); return err == nil }, time.Minute, 10*time.Millisecond)
	cancel(gone)
	require.ErrorIs(t, <-over, gone)
	text, err := os.ReadFile(pids)
	require.NoError(t, err)
	child := filepath.Join("/proc", strings.TrimSpace(string(text)), "stat")
	assert.Eventually(t, func() bool {
		stat, err := os.ReadFile(child)
		// A killed process may wait as a zombie for an adopter that never comes.
		return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) || strings.Contains(string(stat), ") Z ")
	}, time.Minute, 10*time.Millisecond, "the child goes on")
}
