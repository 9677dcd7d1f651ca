package validate

import (
	"fmt"

	"github.com/eksnode/packer-plugin-eksnode/internal/surface"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

// Lock reads the lock file of the field lock_file, on the Packer host; nil where
// there is none, or where it is not known yet. Its content travels to the
// machine.
func Lock(file *string) (*provisioner.Lock, error) {
	if err := Home("lock_file", file); err != nil {
		return nil, err
	}
	if *file == "" || IsUnknown(*file) {
		return nil, nil
	}
	data, err := surface.ReadFile(*file)
	if err != nil {
		return nil, fmt.Errorf(`lock_file: %w; "eksnode lock" makes one`, err)
	}
	lock, err := provisioner.ParseLock(data)
	if err != nil {
		return nil, fmt.Errorf("lock_file %s: %w", *file, err)
	}
	return lock, nil
}
