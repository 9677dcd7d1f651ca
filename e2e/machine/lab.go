package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine/aptmirror"
)

// The lab's link. These addresses exist only in the lab's namespace, so every
// lab of a host uses the same ones.
const (
	bridge       = "br0"
	hostAddress  = "10.77.0.1"
	subnet       = "10.77.0.0"
	subnetMask   = "255.255.0.0"
	subnetLength = 16
)

// LabConfig describes a lab.
type LabConfig struct {
	// Folder holds the disks of running machines. It must be on a file system that
	// can be the upper layer of an overlay (not itself an overlay, no tmpfs on old
	// kernels). NewLab removes labs of dead processes from it.
	Folder string
	// Mirror serves the apt archives to the machines; nil for none.
	Mirror *aptmirror.Mirror
	// Kernel is a kernel image to test whether KVM works on this host. Without it,
	// virtual machines are emulated.
	Kernel string
	// Log receives the lab's messages; io.Discard for none.
	Log io.Writer
}

// Lab is a network namespace for machines, with a bridge, a DHCP and DNS server
// and the apt mirror. It has no route outside.
type Lab struct {
	config    LabConfig
	folder    *folder
	namespace *namespace
	dnsmasq   *Process

	mutex    sync.Mutex
	count    int
	machines []*Machine
	closers  []func() error
	closed   bool
	closing  sync.Once

	probe    sync.Once
	accel    []string
	probeErr error
}

// NewLab opens a lab. It needs root. Close the lab after use; the end of ctx
// also closes it. When the process dies, the kernel ends everything in the lab.
// The next lab removes the remaining files in its folder.
func NewLab(ctx context.Context, config LabConfig) (*Lab, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("opening the lab needs root (namespaces, mounts): run the tests as root")
	}
	folder, err := openFolder(config.Folder)
	if err != nil {
		return nil, fmt.Errorf("opening the lab: %w", err)
	}
	lab := &Lab{config: config, folder: folder}
	lab.closers = append(lab.closers, folder.remove)
	if err := lab.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the lab: %w", err), lab.Close())
	}
	context.AfterFunc(ctx, func() {
		if err := lab.Close(); err != nil {
			fmt.Fprintf(config.Log, "closing the lab: %v\n", err)
		}
	})
	return lab, nil
}

func (l *Lab) open(ctx context.Context) error {
	if err := os.Mkdir(l.leases(), 0o755); err != nil {
		return err
	}
	if err := l.startServices(ctx); err != nil {
		return err
	}
	if l.config.Mirror == nil {
		return nil
	}
	return l.Serve(ctx, net.JoinHostPort(hostAddress, "80"), l.config.Mirror)
}

// leases returns the folder with the addresses of the machines. dnsmasq reads
// each file as soon as it appears.
func (l *Lab) leases() string { return filepath.Join(l.folder.path, "leases.d") }

// startServices starts dnsmasq in a new network namespace. The namespace exists
// as long as the lab.
func (l *Lab) startServices(ctx context.Context) error {
	log, err := os.Create(filepath.Join(l.folder.path, "dnsmasq.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	// With forwarding and without routes, the lab reports "no route" at once.
	// Otherwise connections would time out.
	script := fmt.Sprintf(`set -e
echo 1 > /proc/sys/net/ipv4/ip_forward
ip link set lo up
ip link add %[1]s address %[4]s type bridge
ip addr add %[2]s/%[3]d dev %[1]s
ip link set %[1]s up
exec dnsmasq "$@"`, bridge, hostAddress, subnetLength, MAC(netip.MustParseAddr(hostAddress)))
	cmd := exec.Command("sh", append([]string{"-c", script, "sh"}, l.dnsmasqArgs()...)...)
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	cmd.Stdout, cmd.Stderr = log, log
	l.dnsmasq, err = Spawn(cmd)
	if err != nil {
		return err
	}
	l.closers = append(l.closers, l.dnsmasq.Kill)
	l.namespace, err = openNamespace(l.dnsmasq.PID())
	if err != nil {
		return err
	}
	l.closers = append(l.closers, l.namespace.close)
	return Poll(ctx, func() error {
		said, err := os.ReadFile(log.Name())
		switch {
		case err != nil:
			return Hopeless{Err: err}
		case !l.dnsmasq.Running():
			return Hopeless{Err: fmt.Errorf("starting the lab's DHCP server: %w: %s", l.dnsmasq.Exit(), said)}
		case !strings.Contains(string(said), "started, version"):
			return errors.New("the lab's DHCP server has not started")
		}
		return nil
	})
}

func (l *Lab) dnsmasqArgs() []string {
	return []string{
		"--keep-in-foreground", "--log-facility=-", "--conf-file=/dev/null", "--pid-file=",
		// dnsmasq's usual user cannot read the leases.
		"--user=root", "--group=root",
		"--interface=" + bridge, "--except-interface=lo", "--bind-interfaces",
		"--dhcp-range=" + subnet + ",static," + subnetMask + ",infinite",
		"--dhcp-hostsdir=" + l.leases(),
		"--dhcp-leasefile=" + filepath.Join(l.folder.path, "leases"),
		"--dhcp-authoritative", "--no-ping",
		"--no-resolv", "--no-hosts", "--address=/" + aptmirror.Host + "/" + hostAddress,
		// All other names resolve at once as nonexistent.
		"--address=/#/",
	}
}

// HostAddress returns the address of the lab's servers for the machines.
func (l *Lab) HostAddress() string { return hostAddress }

// Listen opens a socket in the lab. The address must be literal: of the lab
// ("10.77.0.1:8080"), of loopback, or added with AddAddress.
func (l *Lab) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	listener, err := l.namespace.listen(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("listening in the lab: %w", err)
	}
	return listener, nil
}

// Serve serves HTTP at an address in the lab until the lab is closed.
func (l *Lab) Serve(ctx context.Context, address string, handler http.Handler) error {
	listener, err := l.Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler}
	// Serve returns ErrServerClosed; clients notice any other error.
	go func() { _ = server.Serve(listener) }()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.closers = append(l.closers, server.Close)
	return nil
}

// Dial connects from inside the lab to a literal address.
func (l *Lab) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return l.namespace.dial(ctx, network, address)
}

// Folder returns the folder of the machines' disks and consoles while the lab
// is open.
func (l *Lab) Folder() string { return l.folder.path }

// Namespace returns the path of the lab's network namespace while the lab is
// open, for "nsenter --net=PATH".
func (l *Lab) Namespace() string { return l.namespace.path }

// Command prepares a program that will run in the lab's network. It can reach
// the machines, the lab's servers and its own loopback, and nothing else.
// Files, processes and users are the host's.
func (l *Lab) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return l.namespace.command(ctx, name, args...)
}

// AddAddress adds an address to the lab's loopback interface, such as
// 169.254.169.254. Machines reach the address through their default route.
func (l *Lab) AddAddress(ctx context.Context, address netip.Addr) error {
	prefix := netip.PrefixFrom(address, address.BitLen()).String()
	return do("adding "+prefix+" to the lab", l.Command(ctx, "ip", "addr", "add", prefix, "dev", "lo"))
}

// closeLast closes closer after everything else of the lab.
func (l *Lab) closeLast(closer func() error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.closers = slices.Insert(l.closers, 0, closer)
}

// Close kills the machines that still run and removes everything of the lab. A
// second call waits for the first and returns nil.
func (l *Lab) Close() (err error) {
	l.closing.Do(func() { err = l.close() })
	return err
}

func (l *Lab) close() error {
	l.mutex.Lock()
	l.closed = true
	machines, closers := l.machines, l.closers
	l.mutex.Unlock()
	var failures []error
	for _, machine := range machines {
		failures = append(failures, machine.Close())
	}
	for _, closer := range slices.Backward(closers) {
		failures = append(failures, closer())
	}
	return errors.Join(failures...)
}
