package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

const (
	// maxStdout bounds the standard output that Run returns, in bytes.
	maxStdout = 64 << 20
	// keptStderr is how much of the end of standard error is kept, in bytes.
	keptStderr = 64 << 10
	// grace is how long a command's children may still print after the command has
	// ended.
	grace = 250 * time.Millisecond
	// pipeSize is the capacity of the largest pipe, in bytes (pipe(7)).
	pipeSize = 1 << 20
)

// output copies a command's output and stops when the command exits. exec.Cmd would
// wait for the end of the pipe, which a daemon that the command started keeps open.
type output struct {
	from    *os.File
	command *os.File // the end of the pipe that the command gets
	to      io.Writer
	over    chan error
}

// newOutput starts the copying. The caller closes the field command when the
// command has started.
func newOutput(to io.Writer) (*output, error) {
	from, command, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	o := &output{from: from, command: command, to: to, over: make(chan error, 1)}
	go o.copy()
	return o, nil
}

func (o *output) copy() {
	defer o.from.Close()
	_, err := io.Copy(o.to, o.from)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = o.rest()
	}
	o.over <- err
}

// rest copies what is still in the pipe: the command printed that before its exit.
func (o *output) rest() error {
	b := make([]byte, 32<<10)
	for left := pipeSize; left > 0; {
		if err := o.from.SetReadDeadline(time.Now().Add(grace)); err != nil {
			return err
		}
		n, err := o.from.Read(b)
		if n > 0 {
			if _, failed := o.to.Write(b[:n]); failed != nil {
				return failed
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
		left -= n
	}
	return nil
}

// end tells the copying that the command has exited.
func (o *output) end() {
	// An error means that the copying is over, or that the system has no deadlines.
	// Without deadlines the copying waits for the end of the pipe.
	_ = o.from.SetReadDeadline(time.Now().Add(grace))
}

// finish waits until all of the command's output is copied.
func (o *output) finish(ctx context.Context) error {
	select {
	case err := <-o.over:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-o.over:
		return err
	case <-time.After(waitDelay): // the writer that receives the output is stuck
		return context.Cause(ctx)
	}
}

// collected keeps the bytes written to it and refuses more than most bytes.
type collected struct {
	text []byte
	most int
}

// Write implements io.Writer.
func (c *collected) Write(p []byte) (int, error) {
	if len(c.text)+len(p) > c.most {
		return 0, fmt.Errorf("the command printed more than %d bytes", c.most)
	}
	c.text = append(c.text, p...)
	return len(p), nil
}

// ending keeps the last bytes written to it, at least most of them.
type ending struct {
	text []byte
	most int
}

// Write implements io.Writer.
func (e *ending) Write(p []byte) (int, error) {
	e.text = append(e.text, p...)
	if len(e.text) > 2*e.most {
		e.text = append([]byte(nil), e.text[len(e.text)-e.most:]...)
	}
	return len(p), nil
}
