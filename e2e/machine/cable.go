package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
)

// link returns the lab's name of the interface of the machine with that
// address.
func link(address netip.Addr) string {
	octets := address.As4()
	return fmt.Sprintf("m%d-%d", octets[2], octets[3])
}

// Cut makes the network lose all packets from and to the machine with that
// address. The machine's own interface stays up, as with a missing route or a
// security group. The next boot connects the machine again.
func (l *Lab) Cut(ctx context.Context, address netip.Addr) error {
	return l.plug(ctx, address, "nomaster")
}

// Mend connects the machine again after Cut.
func (l *Lab) Mend(ctx context.Context, address netip.Addr) error {
	return l.plug(ctx, address, "master", bridge)
}

func (l *Lab) plug(ctx context.Context, address netip.Addr, how ...string) error {
	args := append([]string{"link", "set", "dev", link(address)}, how...)
	return do("running ip "+strings.Join(args, " "), l.Command(ctx, "ip", args...))
}

// Sent returns the number of packets from the machine with that address since
// its boot, including lost ones.
func (l *Lab) Sent(ctx context.Context, address netip.Addr) (int, error) {
	out, err := l.Command(ctx, "ip", "-json", "-statistics", "link", "show", "dev", link(address)).Output()
	if err != nil {
		return 0, fmt.Errorf("counting the packets of %s: %w", address, err)
	}
	var interfaces []struct {
		Stats struct{ RX struct{ Packets int } } `json:"stats64"`
	}
	if err := json.Unmarshal(out, &interfaces); err != nil || len(interfaces) != 1 {
		return 0, fmt.Errorf("counting the packets of %s: ip prints %q: %w", address, out, err)
	}
	return interfaces[0].Stats.RX.Packets, nil
}

// Enter runs a shell script in the machine of kind [Node] with that address. It
// enters the machine's namespaces, so that it also works when the network is
// cut and before the machine accepts logins. The script must succeed.
func (l *Lab) Enter(ctx context.Context, address netip.Addr, script string) (string, error) {
	l.mutex.Lock()
	n := slices.IndexFunc(l.machines, func(m *Machine) bool { return m.address == address && m.config.Kind == Node })
	var first *Process
	if n >= 0 {
		first = l.machines[n].current()
	}
	l.mutex.Unlock()
	if first == nil || !first.Running() {
		return "", fmt.Errorf("entering the machine at %s: no node runs there", address)
	}
	cmd := exec.CommandContext(ctx, "nsenter", "--target", strconv.Itoa(first.PID()), "--mount", "--pid", "--net", "--uts",
		"--ipc", "--root", "--wd", "--", "sh", "-c", script)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("running %q at %s: %w: %s", script, address, err, strings.TrimSpace(string(out)))
	}
	return strings.TrimSpace(string(out)), nil
}

// namespace is a network namespace that lives as long as its process. It has no
// name in the file system.
type namespace struct {
	file *os.File
	path string
}

func openNamespace(pid int) (*namespace, error) {
	path := fmt.Sprintf("/proc/%d/ns/net", pid)
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the network namespace: %w", err)
	}
	return &namespace{file: file, path: path}, nil
}

func (n *namespace) close() error { return n.file.Close() }

// do runs f on a thread inside the namespace. Sockets that f makes stay there;
// the rest of the program stays outside.
func (n *namespace) do(f func() error) error {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("entering the network namespace: %w", err)
	}
	defer home.Close()
	if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("entering the network namespace: %w", err)
	}
	err = f()
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
		// The thread stays locked, so the runtime ends it with its goroutine and
		// runs no other code on it.
		return errors.Join(err, fmt.Errorf("leaving the network namespace: %w", back))
	}
	runtime.UnlockOSThread()
	return err
}

// listen opens a listening socket in the namespace. The address must be
// literal: a lookup would use another thread.
func (n *namespace) listen(ctx context.Context, network, address string) (net.Listener, error) {
	var listener net.Listener
	err := n.do(func() (err error) {
		var config net.ListenConfig
		listener, err = config.Listen(ctx, network, address)
		return err
	})
	return listener, err
}

// dial connects from inside the namespace to a literal address.
func (n *namespace) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var conn net.Conn
	err := n.do(func() (err error) {
		var dialer net.Dialer
		conn, err = dialer.DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// command prepares a command that will run in the namespace. It keeps its
// process number, because nsenter replaces itself.
func (n *namespace) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{"--net=" + n.path, "--", name}, args...)...)
}

// Open prepares everything for the first machine. It installs the host packages
// that machines of these kinds need, prepares the default base system, and
// opens a lab with the apt mirror. All files are in the harness's cache folder.
// root is the base system's tree, for Config.Root.
func Open(ctx context.Context, log io.Writer, kinds ...Kind) (lab *Lab, root string, err error) {
	cache, err := base.Cache()
	if err != nil {
		return nil, "", err
	}
	if err := base.Install(ctx, log, Packages(kinds...)...); err != nil {
		return nil, "", err
	}
	root, err = base.Debian{}.Prepare(ctx, log)
	if err != nil {
		return nil, "", err
	}
	mirror, err := base.Mirror(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("opening the lab: %w", err)
	}
	lab, err = NewLab(ctx, LabConfig{
		Folder: filepath.Join(cache, "run"),
		Mirror: mirror,
		Kernel: filepath.Join(root, "vmlinuz"),
		Log:    log,
	})
	if err != nil {
		return nil, "", errors.Join(err, mirror.Close())
	}
	lab.closeLast(mirror.Close)
	return lab, root, nil
}

// folder holds the state of one lab's machines. A lock on a file in it
// distinguishes folders in use from those of a killed harness.
type folder struct {
	path string
	lock *os.File
}

// openFolder makes a new folder below parent, after removing the folders of
// dead processes.
func openFolder(parent string) (*folder, error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, fmt.Errorf("making the run folder: %w", err)
	}
	if err := sweep(parent); err != nil {
		return nil, err
	}
	path, err := os.MkdirTemp(parent, "lab-")
	if err != nil {
		return nil, fmt.Errorf("making the run folder: %w", err)
	}
	lock, err := lockFolder(path)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return &folder{path: path, lock: lock}, nil
}

// name is the lab's unique name on the host.
func (f *folder) name() string { return filepath.Base(f.path) }

func (f *folder) remove() error {
	return errors.Join(removeTree(f.path), f.lock.Close())
}

func lockFolder(path string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the run folder: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("locking the run folder: %w", err), lock.Close())
	}
	return lock, nil
}

// sweep removes the leftovers of dead processes' labs. Their machines and
// mounts ended with the processes: only files and control groups remain.
func sweep(parent string) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return fmt.Errorf("sweeping the run folder: %w", err)
	}
	for _, entry := range entries {
		path := filepath.Join(parent, entry.Name())
		if !entry.IsDir() || !strings.HasPrefix(entry.Name(), "lab-") {
			continue
		}
		lock, err := lockFolder(path)
		if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, fs.ErrNotExist) {
			continue // in use, or just removed by its owner
		}
		if err != nil {
			return err
		}
		err = errors.Join(RemoveControlGroups(entry.Name()+"-*"), removeTree(path), lock.Close())
		if err != nil {
			return fmt.Errorf("sweeping %s: %w", path, err)
		}
	}
	return nil
}

// removeTree deletes a folder unless something is mounted in it: the deletion
// would also delete the mounted file system's contents.
func removeTree(path string) error {
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(path))
	if err != nil {
		return fmt.Errorf("removing %s: %w", path, err)
	}
	for _, mount := range mounts {
		return fmt.Errorf("removing %s: %s is mounted: unmount it first", path, mount.Mountpoint)
	}
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("removing %s: %w", path, err)
	}
	return nil
}
