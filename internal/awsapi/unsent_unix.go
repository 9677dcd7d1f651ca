//go:build linux || darwin

package awsapi

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// unsentControl limits the data of a connection that the kernel keeps unsent
// (tcp(7), TCP_NOTSENT_LOWAT). It does not limit the data on the way. A kernel without
// the option only makes the limit of stalling less exact.
func unsentControl(_, _ string, raw syscall.RawConn) error {
	return raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, writeSize) })
}
