//go:build !linux

package disk

import (
	"errors"
	"os"
)

func openForReading(path string, device bool) (*os.File, error) {
	if device {
		return nil, errors.New("block devices are supported on Linux only")
	}
	return os.Open(path)
}

// unused is supported on Linux only.
func unused(*os.File) error { return nil }

// Written is the whole file: holes are supported on Linux only.
func Written(_ *os.File, size int64) []Range { return []Range{{0, size}} }
