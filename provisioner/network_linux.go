package provisioner

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// inOwnNetwork does something in a network of its own, which goes with it, or
// nothing where the kernel makes none. The sysctls of the network are then that
// one's (network_namespaces(7)).
func inOwnNetwork(do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine, and the network with it
		if unix.Unshare(unix.CLONE_NEWNET) != nil {
			done <- nil
			return
		}
		done <- do()
	}()
	return <-done
}
