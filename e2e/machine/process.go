package machine

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a child that never outlives the harness: the kernel kills it when
// the harness dies, even by SIGKILL.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // result of Wait; read it after done is closed
}

// Spawn starts cmd in a process group of its own. A Ctrl-C at the terminal then
// reaches only the harness, which stops its children in order.
func Spawn(cmd *exec.Cmd) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel sends the signal when the *thread* that started the child ends
		// (https://go.dev/issue/27505): keep the thread until the child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	return p, nil
}

// PID returns the child's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Running reports whether the child has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Signal does nothing on a child that has ended.
func (p *Process) Signal(signal syscall.Signal) error {
	if !p.Running() {
		return nil
	}
	if err := p.cmd.Process.Signal(signal); err != nil && p.Running() {
		return fmt.Errorf("signalling %s: %w", p.cmd.Path, err)
	}
	return nil
}

// Wait returns when the child has ended or ctx has.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s to end: %w", p.cmd.Path, context.Cause(ctx))
	}
}

// Kill kills the child and waits until it has ended.
func (p *Process) Kill() error {
	if p == nil {
		return nil
	}
	err := p.Signal(syscall.SIGKILL)
	if err == nil {
		<-p.done
	}
	return err
}

// Exit describes how the child ended.
func (p *Process) Exit() error {
	<-p.done
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

// Hopeless is an error that ends the waiting.
type Hopeless struct{ Err error }

// Error implements error.
func (h Hopeless) Error() string { return h.Err.Error() }

// Poll checks a condition until it holds, returns Hopeless, or ctx ends. The
// error contains the condition's last error.
func Poll(ctx context.Context, condition func() error) error {
	return PollEvery(ctx, 100*time.Millisecond, condition)
}

// PollEvery is Poll with another interval, for expensive conditions.
func PollEvery(ctx context.Context, interval time.Duration, condition func() error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var missing error
	for {
		err := condition()
		var end Hopeless
		switch {
		case err == nil:
			return nil
		case errors.As(err, &end):
			return end.Err
		case ctx.Err() == nil || missing == nil:
			missing = err // later errors only say that the time is over
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), missing)
		case <-ticker.C:
		}
	}
}
