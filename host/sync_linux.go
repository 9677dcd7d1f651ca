package host

import "golang.org/x/sys/unix"

// Sync writes all changes to the disk, on the machine or the image root. Without
// it, a disk that is captured while its machine runs, or whose machine loses power,
// still holds removed files.
func (h *Host) Sync() { unix.Sync() }
