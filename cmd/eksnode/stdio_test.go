package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// If the reader of a pipe ends early, as head does, there is no error message, and
// the exit code is that of the result.
func TestAClosedPipeIsNoError(t *testing.T) {
	root := dirtyRoot(t)
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"distros"}, 0}, {[]string{"distros", "--output", "json"}, 0}, {[]string{"scrub", "--list"}, 0}, {[]string{"version"}, 0},
		{[]string{"scrub", "--help"}, 0}, {[]string{"audit", "--root", root}, 1}, {[]string{"audit", "--root", root, "--output", "junit"}, 1},
		{[]string{"audit", "--root", root, "--distro", "plan9"}, 2}, {[]string{"scrub", "--root", root, "--yes"}, 1},
	} {
		in, out, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, in.Close())
		var errOut bytes.Buffer
		assert.Equal(t, c.code, run(t.Context(), c.args, nil, out, &errOut), "%s", c.args)
		assert.NotContains(t, errOut.String(), "pipe", "%s", c.args)
		require.NoError(t, out.Close())
	}
}

// An output that cannot be written is an error of every command. An audit with
// findings still exits with 1.
func TestUnwritableOutputIsAnError(t *testing.T) {
	full := errors.New("no space left on device")
	root := dirtyRoot(t)
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"distros"}, 2}, {[]string{"version"}, 2}, {[]string{"scrub", "--help"}, 2}, {[]string{"audit", "--root", root}, 1},
	} {
		var errOut bytes.Buffer
		assert.Equal(t, c.code, run(t.Context(), c.args, nil, failing{full}, &errOut), "%s", c.args)
		assert.Equal(t, "eksnode: no space left on device\n", errOut.String(), "%s", c.args)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// An interrupt stops commands that wait for standard input.
func TestAnInterruptStopsReadingStandardInput(t *testing.T) {
	for _, args := range [][]string{{"diagnose", "-"}, {"userdata", "check", "-"}, {"userdata", "render", "--family", "al2023", "--description", "-"}} {
		ctx, cancel := context.WithCancelCause(t.Context())
		in, out := io.Pipe() // never written
		cancel(errors.New("interrupt signal received"))
		var errOut bytes.Buffer
		assert.Equal(t, 2, run(ctx, args, in, io.Discard, &errOut), "%s", args)
		assert.Equal(t, "eksnode: interrupted\n", errOut.String(), "%s", args)
		require.NoError(t, out.Close())
	}
}
