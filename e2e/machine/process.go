package machine

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
)

// process is a child that never outlives the harness: the kernel kills it when
// the harness dies, however it dies.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // of Wait; read it after done is closed
}

// spawn starts cmd in a process group of its own, so that a Ctrl-C at the
// terminal reaches the harness only, which then stops its children in order.
func spawn(cmd *exec.Cmd) (*process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The signal is sent when the *thread* that started the child ends
		// (https://go.dev/issue/27505): keep the thread until the child is gone.
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

func (p *process) pid() int { return p.cmd.Process.Pid }

// running tells whether the child has not ended yet.
func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// signal is a no-op on a child that has ended.
func (p *process) signal(signal syscall.Signal) error {
	if !p.running() {
		return nil
	}
	if err := p.cmd.Process.Signal(signal); err != nil && p.running() {
		return fmt.Errorf("signalling %s: %w", p.cmd.Path, err)
	}
	return nil
}

// wait returns when the child has ended or ctx has.
func (p *process) wait(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s to end: %w", p.cmd.Path, context.Cause(ctx))
	}
}

// kill ends the child at once and waits for it to be gone.
func (p *process) kill() error {
	if p == nil {
		return nil
	}
	err := p.signal(syscall.SIGKILL)
	if err == nil {
		<-p.done
	}
	return err
}

// exit describes how the child ended.
func (p *process) exit() error {
	<-p.done
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}
