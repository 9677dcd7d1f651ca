package main

import (
	"errors"
	"io"
	"syscall"
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
