//go:build !unix

package snapshot

import (
	"errors"
	"fmt"
	"os"
)

// lockedFile opens or makes a file. It makes no lock.
func lockedFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	return file, nil
}

func removeLocked(file *os.File) error { return errors.Join(file.Close(), os.Remove(file.Name())) }
