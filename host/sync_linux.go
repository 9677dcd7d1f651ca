package host

import "golang.org/x/sys/unix"

// Sync has everything written that was changed on the machine or the mounted
// image: a disk that is captured while its machine runs, or whose machine loses
// power, holds what was removed until then.
func (h *Host) Sync() { unix.Sync() }
