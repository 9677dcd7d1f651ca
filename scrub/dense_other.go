//go:build !linux

package scrub

import (
	"io"
	"os"
)

func dense(in *os.File, _ int64) io.Reader { return in }
