//go:build !linux

package secrets

import (
	"io"
	"os"
)

func dense(in *os.File, _ int64) io.Reader { return in }
