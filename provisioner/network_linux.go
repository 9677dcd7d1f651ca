package provisioner

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// inOwnNetwork runs do in a temporary network namespace with its own network
// sysctls (network_namespaces(7)). It runs nothing when the kernel makes no
// namespace.
func inOwnNetwork(do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, and the namespace with the thread
		if unix.Unshare(unix.CLONE_NEWNET) != nil {
			done <- nil
			return
		}
		done <- do()
	}()
	return <-done
}
