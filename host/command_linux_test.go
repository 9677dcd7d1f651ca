package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// Cancelling a command ends its child processes, also a child that ignores SIGTERM
// and has closed the command's output.
func TestCancellingEndsTheCommandsChildren(t *testing.T) {
	h := live(t)
	pids := filepath.Join(t.TempDir(), "pids")
	script := `(trap "" TERM; exec >/dev/null 2>&1; exec sleep 60) & echo $! >` + pids + `.part; mv ` + pids + `.part ` + pids + `; wait`
	gone := errors.New("the Packer host is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	over := make(chan error)
	go func() {
		_, err := h.Run(ctx, Command{Argv: []string{"sh", "-c", script}})
		over <- err
	}()
	require.Eventually(t, func() bool { _, err := os.Stat(pids); return err == nil }, time.Minute, 10*time.Millisecond)
	cancel(gone)
	require.ErrorIs(t, <-over, gone)
	text := testkit.Content(t, pids)
	child := filepath.Join("/proc", strings.TrimSpace(text), "stat")
	assert.Eventually(t, func() bool {
		stat, err := os.ReadFile(child)
		// A killed process may stay a zombie when its new parent never waits for
		// it ends.
		return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) || strings.Contains(string(stat), ") Z ")
	}, time.Minute, 10*time.Millisecond, "the child is still running")
}

// A command's output is streamed while it runs, or returned.
func TestCommandOutputIsStreamedOrReturned(t *testing.T) {
	h := live(t)
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

// A daemon that a command leaves behind keeps the command's output open. Run ends
// with the command's exit and returns all of the command's output.
func TestRunEndsWithTheCommandsExit(t *testing.T) {
	h := live(t)
	const line = "0123456789abcdef0123456789abcde\n"
	for name, c := range map[string]struct{ script, stdout, err string }{
		"a silent daemon":              {"echo done; sleep 60 & echo $! >&9; exit 0", "done\n", ""},
		"a daemon in its own session":  {"echo done; setsid sh -c 'echo $$ >&9; sleep 60' & exit 0", "done\n", ""},
		"a daemon with stderr only":    {"echo done; sleep 60 >/dev/null & echo $! >&9; exit 0", "done\n", ""},
		"a daemon that keeps printing": {"yes '' >&2 & echo $! >&9; echo done", "done\n", ""},
		"much output before the exit":  {"sleep 60 & echo $! >&9; for i in $(seq 2048); do echo " + strings.TrimSpace(line) + "; done", strings.Repeat(line, 2048), ""},
		"a failure":                    {"echo why >&2; sleep 60 & echo $! >&9; exit 3", "", "exit status 3: why"},
	} {
		t.Run(name, func(t *testing.T) {
			pid := filepath.Join(t.TempDir(), "pid")
			t.Cleanup(func() { endDaemon(t, pid) })
			out, err := h.Run(t.Context(), Command{Argv: []string{"sh", "-c", "exec 9>" + pid + "; " + c.script}})
			assert.Equal(t, c.stdout, string(out))
			if c.err == "" {
				assert.NoError(t, err)
				return
			}
			var failed *CommandError
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, c.err, failed.Err.Error()+": "+failed.Output)
		})
	}
}

// endDaemon ends a test's daemon. The daemon has written its process ID into the
// file.
func endDaemon(t *testing.T, file string) {
	t.Helper()
	var pid int
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	assert.NoError(t, unix.Kill(pid, unix.SIGKILL))
}

// A cancelled command ends although another process keeps its output open, and no
// goroutine waits for it.
func TestCancellingDoesNotWaitForOpenOutput(t *testing.T) {
	h := live(t)
	gone := errors.New("the Packer host is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	over := make(chan error)
	ready, to := io.Pipe()
	go func() {
		_, err := h.Run(ctx, Command{Argv: []string{"sh", "-c", `trap "" TERM; setsid sleep 60 & echo $!; exec sleep 60`}, Stdout: to})
		over <- err
	}()
	var pid int
	_, err := fmt.Fscanln(ready, &pid)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, unix.Kill(pid, unix.SIGKILL)) })
	cancel(gone)
	require.ErrorIs(t, <-over, gone)
}

// The end of standard error is kept. Too much standard output is an error.
func TestOutputIsBounded(t *testing.T) {
	h := live(t)
	_, err := h.Run(t.Context(), Command{Argv: []string{"yes", "0123456789abcde"}})
	require.ErrorContains(t, err, "yes 0123456789abcde: reading its output: the command printed more than 67108864 bytes")
	_, err = h.Run(t.Context(), Command{Argv: []string{"sh", "-c", "yes noise | head -c 10000000 >&2; echo why >&2; exit 3"}})
	require.ErrorContains(t, err, "why")
	c := &collected{most: 4}
	for text, fits := range map[string]bool{"abcd": true, "abcde": false} {
		c.text = nil
		_, err = c.Write([]byte(text))
		assert.Equal(t, fits, err == nil, text)
	}
	e := &ending{most: 4}
	for range 100 {
		_, err := e.Write([]byte("abc"))
		require.NoError(t, err)
	}
	assert.LessOrEqual(t, len(e.text), 2*4)
	assert.True(t, strings.HasSuffix(string(e.text), "abc"))
}

func TestTail(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{" four\n", 4, "four"}, {"four", 3, "… our"}, {"one\ntwo", 4, "… two"}, {"one\ntwo\nsix", 8, "… two\nsix"},
		{"one\ntwo\nsix", 7, "… six"}, {"one\ntwo\nsix", 6, "… six"}, {"", 0, ""},
	} {
		assert.Equal(t, c.want, tail(c.text, c.most), "%q, %d", c.text, c.most)
	}
}

// PutBack runs its command even if the context is cancelled.
func TestPutBackRunsAfterCancellation(t *testing.T) {
	h := live(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	file := filepath.Join(t.TempDir(), "back")
	require.NoError(t, h.PutBack(ctx, Command{Argv: []string{"touch", file}}))
	assert.FileExists(t, file)
	err := h.PutBack(ctx, Command{Argv: []string{"sh", "-c", "echo no >&2; exit 5"}})
	assert.EqualError(t, err, "restoring a temporary change: sh -c echo no >&2; exit 5: exit status 5: no")
}
