package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/surface"
)

// stdout is standard output. A reader such as head may close the pipe early. Then
// the rest of the output is dropped, and the exit code stays that of the result.
type stdout struct {
	io.Writer
	closed bool
	// failed is the first error other than a closed pipe.
	failed error
}

// Write implements io.Writer.
func (s *stdout) Write(text []byte) (int, error) {
	if s.closed {
		return len(text), nil
	}
	n, err := s.Writer.Write(text)
	switch {
	case errors.Is(err, syscall.EPIPE):
		s.closed = true
		return len(text), nil
	case err != nil && s.failed == nil:
		s.failed = err
	}
	return n, err
}

// inputMost is the maximum size of a file or of standard input, in bytes.
const inputMost = 64 << 20

// readFile reads a file from the command line.
func readFile(name string) ([]byte, error) {
	f, err := surface.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readBounded(name, f)
}

func readBounded(name string, in io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(in, inputMost+1))
	if err == nil && len(text) > inputMost {
		err = fmt.Errorf("%s is larger than %d MiB; name a smaller file", name, inputMost>>20)
	}
	return text, err
}

// standardInput returns standard input. A read ends when the command is interrupted.
func standardInput(cmd *cobra.Command) io.Reader { return reading{cmd.Context(), cmd.InOrStdin()} }

// reading ends a read when the context ends: a terminal or a pipe may never send
// anything.
type reading struct {
	ctx context.Context
	in  io.Reader
}

// Read implements io.Reader.
func (r reading) Read(p []byte) (int, error) {
	type answer struct {
		text []byte
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		text := make([]byte, len(p))
		n, err := r.in.Read(text)
		done <- answer{text[:n], err}
	}()
	select {
	case a := <-done:
		return copy(p, a.text), a.err
	case <-r.ctx.Done():
		return 0, context.Cause(r.ctx)
	}
}
