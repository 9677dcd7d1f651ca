//go:build linux

package aws

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
)

// alone is the environment variable that marks the second start, inside the
// namespace. Its value is the root of moto.
const alone = "EKSNODE_TEST_ALONE"

// Alone runs a package's tests without any network but loopback. It starts the
// test program again in a network namespace of its own, where a connection to
// any other address fails. Call it from TestMain. It needs root.
func Alone(run func() int) int {
	if os.Getenv(alone) != "" {
		if err := onlyLoopback(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return run()
	}
	// moto's root is built while the network is still available.
	root, err := base.Moto(context.Background(), os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), alone+"="+root)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	if err := cmd.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "running the tests without a network: %v\n", err)
		return 1
	}
	return 0
}

// onlyLoopback brings loopback up and fails when another interface is up.
func onlyLoopback() error {
	all, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("listing the network interfaces: %w", err)
	}
	for _, i := range all {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
			return fmt.Errorf("listing the network interfaces: %s is up; the tests must run in a network namespace of their own", i.Name)
		}
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening a socket: %w", err)
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("bringing loopback up: %w", err)
	}
	return nil
}
