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

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine/aptmirror"
	"golang.org/x/sys/unix"
)

// The lab's link. Nothing outside the lab's namespace ever sees these addresses,
// so every lab of a host uses the same ones.
const (
	bridge       = "br0"
	hostAddress  = "10.77.0.1"
	subnet       = "10.77.0.0"
	subnetMask   = "255.255.0.0"
	subnetLength = 16
)

// LabConfig describes a lab.
type LabConfig struct {
	// Folder is where running machines keep their disks, on a file system that
	// can be the upper half of an overlay (not itself an overlay, no tmpfs on
	// old kernels). Labs of dead processes found there are removed.
	Folder string
	// Mirror serves the apt archives to the machines; nil for none.
	Mirror *aptmirror.Mirror
	// Kernel is a kernel image to find out with whether KVM works on this host;
	// without one, virtual machines are emulated.
	Kernel string
	// Log takes what the lab has to say; io.Discard for nothing.
	Log io.Writer
}

// Lab is a network namespace with a bridge, a DHCP and DNS server and the apt
// mirror on it, in which machines run. It has no route to anywhere else.
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

// NewLab opens a lab. It needs root. Close it; when ctx ends it closes itself,
// and when the process dies the kernel ends everything in it but the files in
// its folder, which the next lab removes.
func NewLab(ctx context.Context, config LabConfig) (*Lab, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("opening the lab: only root can (namespaces, mounts); run it as root")
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

// leases is the folder from which dnsmasq reads, as soon as a file appears,
// which machine gets which address.
func (l *Lab) leases() string { return filepath.Join(l.folder.path, "leases.d") }

// startServices starts dnsmasq in a new network namespace, which thereby lives
// exactly as long as the lab.
func (l *Lab) startServices(ctx context.Context) error {
	log, err := os.Create(filepath.Join(l.folder.path, "dnsmasq.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	// Forwarding, in a namespace without routes, is what makes the lab answer
	// "no route" at once where it would else be silent.
	script := fmt.Sprintf(`set -e
echo 1 > /proc/sys/net/ipv4/ip_forward
ip link set lo up
ip link add %[1]s type bridge
ip addr add %[2]s/%[3]d dev %[1]s
ip link set %[1]s up
exec dnsmasq "$@"`, bridge, hostAddress, subnetLength)
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
		// It could not read the leases as its usual user.
		"--user=root", "--group=root",
		"--interface=" + bridge, "--except-interface=lo", "--bind-interfaces",
		"--dhcp-range=" + subnet + ",static," + subnetMask + ",infinite",
		"--dhcp-hostsdir=" + l.leases(),
		"--dhcp-leasefile=" + filepath.Join(l.folder.path, "leases"),
		"--dhcp-authoritative", "--no-ping",
		"--no-resolv", "--no-hosts", "--address=/" + aptmirror.Host + "/" + hostAddress,
		// Any other name does not exist, and machines learn it at once.
		"--address=/#/",
	}
}

// HostAddress is the address at which machines reach servers that listen in the
// lab.
func (l *Lab) HostAddress() string { return hostAddress }

// Listen opens a socket in the lab. The address must be a literal one: of the
// lab ("10.77.0.1:8080"), of loopback, or one added with AddAddress.
func (l *Lab) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	listener, err := l.namespace.listen(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("listening in the lab: %w", err)
	}
	return listener, nil
}

// Serve answers HTTP at an address in the lab until the lab is closed.
func (l *Lab) Serve(ctx context.Context, address string, handler http.Handler) error {
	listener, err := l.Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler}
	// It returns ErrServerClosed; clients notice any other reason.
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

// Folder is where the machines' disks and consoles are while the lab is open.
func (l *Lab) Folder() string { return l.folder.path }

// Namespace is the path of the lab's network namespace while the lab is open,
// for "nsenter --net=PATH".
func (l *Lab) Namespace() string { return l.namespace.path }

// Command prepares a program that will run inside the lab: it can reach the
// machines, the lab's servers and its own loopback, and nothing else. Files,
// processes and users are the host's.
func (l *Lab) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return l.namespace.command(ctx, name, args...)
}

// AddAddress gives the lab's loopback interface another address, which machines
// reach through their default route: 169.254.169.254, say.
func (l *Lab) AddAddress(ctx context.Context, address netip.Addr) error {
	prefix := netip.PrefixFrom(address, address.BitLen()).String()
	out, err := l.Command(ctx, "ip", "addr", "add", prefix, "dev", "lo").CombinedOutput()
	if err != nil {
		return fmt.Errorf("adding %s to the lab: %w: %s", prefix, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// closeLast has something closed after everything else of the lab.
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
