package main

import (
	"fmt"

	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

func readLock(name string) (*provisioner.Lock, error) {
	data, err := readFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading the lock file: %w", err)
	}
	l, err := provisioner.ParseLock(data)
	if err != nil {
		return nil, fmt.Errorf("reading the lock file %s: %w", name, err)
	}
	return l, nil
}

// readLockInto reads a lock file into a spec, unless the name is empty.
func readLockInto(name string, spec *provisioner.Spec) (err error) {
	if name != "" {
		spec.Lock, err = readLock(name)
	}
	return err
}
