//go:build unix

package remote

import "golang.org/x/sys/unix"

// writable says why nothing can be put into a folder.
func writable(folder string) error { return unix.Access(folder, unix.W_OK|unix.X_OK) }
