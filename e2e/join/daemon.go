package join

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
)

// daemon is a program of a control plane. It ends with the process that started
// it, however that ends.
type daemon struct {
	name, log string
	process   *os.Process
	done      chan struct{}
	err       error // how it ended; read it after done is closed
}

// start runs a program in the lab; what it says goes to NAME.log in folder.
func start(lab *machine.Lab, folder, name, program string, args ...string) (*daemon, error) {
	d := &daemon{name: name, log: filepath.Join(folder, name+".log"), done: make(chan struct{})}
	log, err := os.Create(d.log)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	defer log.Close()
	cmd := lab.Command(context.Background(), program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The signal is sent when the thread that started it ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			d.err = cmd.Wait()
			close(d.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	d.process = cmd.Process
	return d, nil
}

// ended says how a program ended that should still run; nil while it does.
func (d *daemon) ended() error {
	select {
	case <-d.done:
		text, err := os.ReadFile(d.log)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		lines = lines[max(0, len(lines)-15):]
		return errors.Join(fmt.Errorf("%s ended: %w\n%s", d.name, d.err, strings.Join(lines, "\n")), err)
	default:
		return nil
	}
}

// leaving is how long a program may take to end when it is asked to.
const leaving = 5 * time.Second

// stop ends the program, and kills it when it does not end.
func (d *daemon) stop() error {
	select {
	case <-d.done:
		return nil
	default:
	}
	if err := d.process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("ending %s: %w", d.name, err)
	}
	select {
	case <-d.done:
		return nil
	case <-time.After(leaving):
	}
	if err := d.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing %s: %w", d.name, err)
	}
	<-d.done
	return nil
}

// step is the time between two looks at a condition.
const step = 100 * time.Millisecond

// hopeless is what no waiting helps against.
type hopeless struct{ error }

// Poll looks at a condition until it holds, is hopeless, or ctx ends. The error
// then says what was still missing.
func Poll(ctx context.Context, condition func() error) error {
	ticker := time.NewTicker(step)
	defer ticker.Stop()
	var missing error
	for {
		err := condition()
		if err == nil {
			return nil
		}
		var end hopeless
		if errors.As(err, &end) {
			return end.error
		}
		if ctx.Err() == nil || missing == nil {
			missing = err // later ones only say that the time is over
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), missing)
		case <-ticker.C:
		}
	}
}
