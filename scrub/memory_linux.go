package scrub

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// inMemory is a file with this content that lies on no disk.
func inMemory(content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("metadata", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "metadata")
	if _, err := f.Write(content); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
