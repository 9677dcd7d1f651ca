//go:build !linux && !darwin

package awsapi

import "syscall"

// unsentControl does nothing: the system has no such limit.
func unsentControl(_, _ string, _ syscall.RawConn) error { return nil }
