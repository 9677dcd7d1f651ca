package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// Command is a program to run on the live machine, without a shell.
type Command struct {
	Argv  []string
	Env   []string  // added to the machine's own environment, "NAME=value"
	Stdin io.Reader // nil reads nothing
	// Stdout is where standard output goes while the command runs, and Run
	// returns none of it; nil has Run return all.
	Stdout io.Writer
}

// String is the command as a person would type it.
func (c Command) String() string { return strings.Join(c.Argv, " ") }

// CommandError says which command failed and what it said.
type CommandError struct {
	Command Command
	// Output is the last part of what it printed on standard error, or on
	// standard output when it printed nothing there.
	Output string
	Err    error
}

func (e *CommandError) Error() string {
	msg := fmt.Sprintf("%s: %v", e.Command, e.Err)
	if e.Output != "" {
		msg += ": " + e.Output
	}
	return msg
}

func (e *CommandError) Unwrap() error { return e.Err }

// ExitCode is what the command exited with, or -1 when it did not exit by
// itself.
func (e *CommandError) ExitCode() int {
	var exit *exec.ExitError
	if errors.As(e.Err, &exit) {
		return exit.ExitCode()
	}
	return -1
}

// Run runs a command on the live machine and returns its standard output. A
// non-zero exit is a *CommandError. On a mounted root it returns
// ErrMountedRoot: a program of the image must never run on another machine.
// When ctx ends, the command and its process group get SIGTERM and, when the
// command has ended or after five seconds, SIGKILL.
func (h *Host) Run(ctx context.Context, c Command) ([]byte, error) {
	if !h.IsLive() {
		return nil, fmt.Errorf("running %s: %w", c, ErrMountedRoot)
	}
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Env = append(cmd.Environ(), c.Env...)
	cmd.Stdin = c.Stdin
	cmd.WaitDelay = 5 * time.Second
	ownGroup(cmd)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
			killGroup(cmd)
		}
		said := stderr.String()
		if strings.TrimSpace(said) == "" {
			said = stdout.String()
		}
		return stdout.Bytes(), &CommandError{Command: c, Output: tail(said, 600), Err: err}
	}
	return stdout.Bytes(), nil
}

// HasCommand says whether the live machine has a program of that name on its
// search path.
func (h *Host) HasCommand(name string) bool {
	if !h.IsLive() {
		return false
	}
	_, err := exec.LookPath(name)
	return err == nil
}

// tail is the last part of a text, cut at a line's start.
func tail(s string, most int) string {
	s = strings.TrimSpace(s)
	if len(s) <= most {
		return s
	}
	s = s[len(s)-most:]
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		s = s[i+1:]
	}
	return "… " + s
}
