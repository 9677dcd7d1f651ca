package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Command is a program to run on the live machine, without a shell.
type Command struct {
	Argv  []string
	Env   []string  // added to the machine's environment, as "NAME=value"
	Stdin io.Reader // nil means empty input
	// Stdout receives the standard output while the command runs, and Run then
	// returns none. With nil, Run returns the standard output.
	Stdout io.Writer
}

// String is the command as a person would type it.
func (c Command) String() string { return strings.Join(c.Argv, " ") }

// CommandError names the command that failed and holds the end of its output.
type CommandError struct {
	Command Command
	// Output is the end of standard error, or of standard output when standard
	// error is empty.
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

// ExitCode is the command's exit code, or -1 when the command did not start or was
// killed.
func (e *CommandError) ExitCode() int {
	if exit, ok := errors.AsType[*exec.ExitError](e.Err); ok {
		return exit.ExitCode()
	}
	return -1
}

// waitDelay is how long a command may take to end after SIGTERM.
const waitDelay = 5 * time.Second

// Run runs a command on the live machine and returns its standard output, at most
// 64 MiB. A non-zero exit is a *CommandError. Run returns when the command exits:
// child processes that keep the output open, such as a daemon, go on running.
//
// On an image root Run returns ErrMountedRoot, because a program of the image must
// never run on another machine.
//
// When ctx ends, the command's process group gets SIGTERM. It gets SIGKILL when the
// command has ended, or after five seconds.
func (h *Host) Run(ctx context.Context, c Command) ([]byte, error) {
	if !h.IsLive() {
		return nil, fmt.Errorf("running %s: %w", c, ErrMountedRoot)
	}
	cmd := exec.CommandContext(ctx, found(c.Argv[0]), c.Argv[1:]...)
	cmd.Args[0] = c.Argv[0]
	cmd.Env = append(append(cmd.Environ(), "PATH="+searchPath()), append(h.env[:len(h.env):len(h.env)], c.Env...)...)
	if h.Offline() { // systemctl, also of package scripts, changes files alone and ignores the rest
		cmd.Env = append(cmd.Env, "SYSTEMD_OFFLINE=1")
	}
	cmd.Stdin = c.Stdin
	cmd.WaitDelay = waitDelay
	ownGroup(cmd)
	stdout, stderr := &collected{most: maxStdout}, &ending{most: keptStderr}
	to := c.Stdout
	if to == nil {
		to = stdout
	}
	if err := execute(ctx, cmd, to, stderr); err != nil {
		said := string(stderr.text)
		if strings.TrimSpace(said) == "" {
			said = string(stdout.text)
		}
		return stdout.text, &CommandError{Command: c, Output: tail(said, 600), Err: err}
	}
	return stdout.text, nil
}

// execute runs a command until it exits and copies its output.
func execute(ctx context.Context, cmd *exec.Cmd, stdout, stderr io.Writer) error {
	out, err := newOutput(stdout)
	if err != nil {
		return err
	}
	said, err := newOutput(stderr)
	if err != nil {
		return errors.Join(err, out.command.Close())
	}
	cmd.Stdout, cmd.Stderr = out.command, said.command
	err = cmd.Start()
	closing := errors.Join(out.command.Close(), said.command.Close())
	if err == nil {
		err = cmd.Wait()
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // a child process keeps standard input open
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
		killGroup(cmd)
	}
	out.end()
	said.end()
	copied := errors.Join(out.finish(ctx), said.finish(ctx), closing)
	if copied != nil && (err == nil || ctx.Err() == nil) { // the command may have ended because nothing read its output
		err = fmt.Errorf("reading its output: %w", copied)
	}
	return err
}

// HasCommand says whether the live machine has a program of that name on its search
// path, or below /usr/local.
func (h *Host) HasCommand(name string) bool {
	if !h.IsLive() {
		return false
	}
	_, err := exec.LookPath(found(name))
	return err == nil
}

// searchPath is the search path for commands, with the folders of upstream's
// containerd and runc. sudo of Red Hat's family leaves those out.
func searchPath() string {
	folders := filepath.SplitList(os.Getenv("PATH"))
	for _, folder := range []string{"/usr/local/sbin", "/usr/local/bin"} {
		if !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
	}
	return strings.Join(folders, string(filepath.ListSeparator))
}

// found returns the path of a command on the search path, or the name itself.
func found(name string) string {
	if _, err := exec.LookPath(name); err == nil || strings.Contains(name, "/") {
		return name
	}
	for _, folder := range filepath.SplitList(searchPath()) {
		if path, err := exec.LookPath(filepath.Join(folder, name)); err == nil && filepath.IsAbs(path) {
			return path
		}
	}
	return name
}

// tail is the last part of a text and starts at a line's start.
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

// putBackLimit bounds the time of a restoring command.
const putBackLimit = 2 * time.Minute

// PutBack runs a command that restores a temporary change, such as a stopped
// service. It runs also when ctx has ended.
func (h *Host) PutBack(ctx context.Context, c Command) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), putBackLimit)
	defer cancel()
	if _, err := h.Run(ctx, c); err != nil {
		return fmt.Errorf("restoring a temporary change: %w", err)
	}
	return nil
}
