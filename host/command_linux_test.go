package host

import (
	"context"
	"errors"
	"io"
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

// What a command prints is read while it runs, or returned.
func TestWhereOutputGoes(t *testing.T) {
	h, err := Live()
	require.NoError(t, err)
	defer h.Close()
	out, err := h.Run(t.Context(), Command{Argv: []string{"echo", "all"}})
	require.NoError(t, err)
	assert.Equal(t, "all\n", string(out))

	text, to := io.Pipe()
	over := make(chan error)
	go func() {
		out, err := h.Run(t.Context(), Command{Argv: []string{"sh", "-c", "echo first; read -r go; echo last"}, Stdin: strings.NewReader("go\n"), Stdout: to})
		assert.Empty(t, out)
		over <- errors.Join(err, to.Close())
	}()
	said, err := io.ReadAll(text)
	require.NoError(t, err)
	assert.Equal(t, "first\nlast\n", string(said))
	require.NoError(t, <-over)

	_, err = h.Run(t.Context(), Command{Argv: []string{"sh", "-c", "echo why >&2; exit 3"}, Stdout: io.Discard})
	assert.EqualError(t, err, "sh -c echo why >&2; exit 3: exit status 3: why")
}
