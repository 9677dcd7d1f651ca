//go:build !linux

package provisioner

// inOwnNetwork does nothing: machines are provisioned on Linux.
func inOwnNetwork(func() error) error { return nil }
