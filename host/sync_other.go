//go:build !linux

package host

// Sync does nothing: machines and images are changed on Linux.
func (h *Host) Sync() {}
