package main

import (
	"errors"
	"io"
	"syscall"
)

// stdout is standard output. Its reader may leave early, as head does: the rest
// is then dropped in silence, and the exit code is that of the result.
type stdout struct {
	io.Writer
	closed bool
	// failed is the first error that is not the reader's leaving.
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
