//go:build linux

package aws

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
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

// moto is a server of https://docs.getmoto.org. It keeps the state of AWS
// accounts.
type moto struct {
	url  string
	said *testkit.Said
}

//go:embed moto.py
var server string

// last returns the end of the output.
func (m *moto) last() string {
	said := m.said.String()
	return said[max(0, len(said)-500):]
}

// patience is how long moto may take to start. Reading its Python code takes a
// while on a machine under load.
const patience = 2 * time.Minute

// started is the one server of a test process. It has an account with only the default
// networks, and every World has a copy of it or of its copy with the sample.
var started = sync.OnceValues(func() (*moto, error) {
	if root := os.Getenv(alone); root != "" {
		return startMoto(root)
	}
	root, err := base.Moto(context.Background(), os.Stderr)
	if err != nil {
		return nil, err
	}
	return startMoto(root)
})

// startMoto runs moto in its root and returns when it serves requests. moto
// ends with this process.
func startMoto(root string) (*moto, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting moto: %w", err)
	}
	address := listener.Addr().(*net.TCPAddr)
	if err := listener.Close(); err != nil {
		return nil, fmt.Errorf("starting moto: %w", err)
	}
	m := &moto{url: "http://" + address.String(), said: &testkit.Said{}}
	cmd := exec.Command("/usr/bin/python3", "-c", server, fmt.Sprint(address.Port))
	cmd.Err = nil // the program is inside the root
	cmd.Dir = "/"
	cmd.Env = []string{
		"PATH=/usr/bin:/bin", "HOME=/root", "PYTHONDONTWRITEBYTECODE=1",
		"MOTO_IAM_LOAD_MANAGED_POLICIES=true", "MOTO_EC2_LOAD_DEFAULT_AMIS=false",
		"MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION=true", "MOTO_ENABLE_KEYPAIR_VALIDATION=true",
	}
	cmd.Stdout, cmd.Stderr = m.said, m.said
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	process, err := machine.Spawn(cmd)
	if err != nil {
		return nil, fmt.Errorf("starting moto: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err = machine.PollEvery(ctx, 20*time.Millisecond, func() error {
		answer, err := http.Get(m.url + "/moto-api/")
		switch {
		case err == nil:
			return answer.Body.Close()
		case !process.Running():
			return machine.Hopeless{Err: fmt.Errorf("moto ended (%w): %s", process.Exit(), m.last())}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("starting moto: %w", err)
	}
	return m, nil
}

// copy returns a server with the same state. Only a copy that is for copies can be copied.
func (m *moto) copy(forCopies bool) (*moto, error) {
	path := "/copy"
	if forCopies {
		path += "?of=copies"
	}
	answer, err := http.Get(m.url + path)
	if err != nil {
		return nil, fmt.Errorf("copying moto: %w", err)
	}
	defer answer.Body.Close()
	port, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("copying moto: %s: %s (%v): %s", answer.Status, port, err, m.last())
	}
	return &moto{url: "http://" + net.JoinHostPort("127.0.0.1", string(port)), said: m.said}, nil
}

// end ends a copy.
func (m *moto) end() {
	if answer, err := http.Get(m.url + "/end"); err == nil { // it ends without an answer
		_ = answer.Body.Close()
	}
}
