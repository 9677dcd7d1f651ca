package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/surface"
)

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
