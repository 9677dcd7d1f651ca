package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// body is the part that differs between the kinds of machines.
type body interface {
	// prepare makes the machine's disk.
	prepare(ctx context.Context) error
	// boot starts the machine. Its console is appended to the file at
	// m.consolePath().
	boot() (*Process, error)
	// press pushes the power button.
	press(ctx context.Context) error
	// capture writes the disk of a stopped machine into a raw image.
	capture(ctx context.Context, raw string) error
	// release frees the resources of an ended process.
	release() error
}

// Machine is a machine in a lab. Several goroutines may call its methods. Only
// one at a time may boot, power off or capture it.
type Machine struct {
	lab     *Lab
	config  Config
	address netip.Addr
	mac     net.HardwareAddr
	folder  string
	body    body

	mutex   sync.Mutex
	process *Process
	closed  bool
}

// Start makes and boots a machine. It returns when SSH accepts connections.
func (l *Lab) Start(ctx context.Context, config Config) (*Machine, error) {
	machine, err := l.newMachine(config)
	if err != nil {
		return nil, fmt.Errorf("starting the machine %s: %w", config.InstanceID, err)
	}
	err = machine.body.prepare(ctx)
	if err != nil {
		err = fmt.Errorf("starting the machine %s: %w", config.InstanceID, err)
	} else {
		err = machine.Boot(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, machine.Close())
	}
	return machine, nil
}

// newMachine gives a machine its address, folder and instance data.
func (l *Lab) newMachine(config Config) (*Machine, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.closed {
		return nil, errors.New("the lab is closed")
	}
	l.count++
	address := netip.AddrFrom4([4]byte{10, 77, byte(1 + l.count/250), byte(1 + l.count%250)})
	config, err := config.complete()
	if err != nil {
		return nil, err
	}
	machine := &Machine{
		lab:     l,
		config:  config,
		address: address,
		mac:     MAC(address),
		folder:  filepath.Join(l.folder.path, config.InstanceID),
	}
	switch config.Kind {
	case Nspawn:
		machine.body = &container{Machine: machine}
	case QEMU:
		machine.body = &virtual{Machine: machine}
	case Node:
		machine.body = &node{Machine: machine}
	}
	if err := os.Mkdir(machine.folder, 0o755); err != nil {
		return nil, fmt.Errorf("making its folder (is the instance id taken?): %w", err)
	}
	l.machines = append(l.machines, machine)
	lease := fmt.Sprintf("%s,%s,%s,infinite\n", machine.mac, address, machine.hostname())
	if err := os.WriteFile(filepath.Join(l.leases(), config.InstanceID), []byte(lease), 0o644); err != nil {
		return nil, fmt.Errorf("giving it an address: %w", err)
	}
	if config.Addressed != nil {
		config.Addressed(address)
	}
	return machine, machine.writeSeed()
}

// seedFolder is the folder on disk where cloud-init's NoCloud data source looks
// for a seed.
const seedFolder = "/var/lib/cloud/seed/nocloud"

// writeSeed writes the instance data in the form of cloud-init's NoCloud data
// source. The machine sees it mounted; it is not on the machine's disk.
// (https://cloudinit.readthedocs.io/en/22.4.2/topics/datasources/nocloud.html)
func (m *Machine) writeSeed() error {
	meta, err := json.Marshal(map[string]any{ // JSON is YAML
		"instance-id": m.config.InstanceID, "local-hostname": m.hostname(), "public-keys": m.config.AuthorizedKeys,
	})
	user := m.config.UserData
	if len(user) == 0 {
		user = []byte("#cloud-config\n{}\n")
	}
	err = errors.Join(err, os.Mkdir(m.seedPath(), 0o755),
		os.WriteFile(filepath.Join(m.seedPath(), "meta-data"), meta, 0o644), os.WriteFile(filepath.Join(m.seedPath(), "user-data"), user, 0o644))
	if err != nil {
		return fmt.Errorf("writing the instance data: %w", err)
	}
	return nil
}

// MAC returns the hardware address of the machine with that address: locally
// administered, and different for each machine ever made in a lab.
func MAC(address netip.Addr) net.HardwareAddr {
	octets := address.As4()
	return append(net.HardwareAddr{0x02, 0xec}, octets[:]...)
}

func (m *Machine) seedPath() string    { return filepath.Join(m.folder, "seed") }
func (m *Machine) consolePath() string { return filepath.Join(m.folder, "console.log") }

// controlGroup returns the name of the machine's control group, unique on the
// host.
func (m *Machine) controlGroup() string { return m.lab.folder.name() + "-" + m.config.InstanceID }

// link returns the name of the machine's interface on the lab's side.
func (m *Machine) link() string { return link(m.address) }

// Boot boots a stopped machine with its present disk. It returns when SSH
// accepts connections. For a new machine, Start has done this.
func (m *Machine) Boot(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, m.config.ReadyWithin,
		fmt.Errorf("no SSH within %s", m.config.ReadyWithin))
	defer cancel()
	if err := m.powerOn(); err != nil {
		return m.fail("booting the machine "+m.config.InstanceID, err)
	}
	err := Poll(ctx, func() error {
		if !m.Running() {
			return Hopeless{Err: fmt.Errorf("the machine ended: %w", m.current().Exit())}
		}
		return m.ready(ctx)
	})
	if err != nil {
		return m.fail("waiting for SSH on the machine "+m.config.InstanceID, err)
	}
	return nil
}

func (m *Machine) powerOn() error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	switch {
	case m.closed:
		return errors.New("the machine is closed")
	case m.process != nil && m.process.Running():
		return errors.New("the machine is running")
	}
	process, err := m.body.boot()
	if err != nil {
		return err
	}
	m.process = process
	return nil
}

// InstanceID returns the machine's name in the lab.
func (m *Machine) InstanceID() string { return m.config.InstanceID }

// Disk returns the file with the disk of a machine of kind [Node], in the state
// that its kernel has written.
func (m *Machine) Disk() string { return filepath.Join(m.folder, "disk.raw") }

// hostname returns the host name in the instance data, as on EC2 ("ip-10-77-1-1").
func (m *Machine) hostname() string { return "ip-" + strings.ReplaceAll(m.address.String(), ".", "-") }

// Address returns the machine's address, reachable from inside the lab.
func (m *Machine) Address() netip.Addr { return m.address }

// SSH returns address and user for logins from inside the lab (see
// Lab.Command).
func (m *Machine) SSH() (address string, port int, user string) {
	return m.address.String(), 22, m.config.User
}

func (m *Machine) sshAddress() string { return net.JoinHostPort(m.address.String(), "22") }

// Running reports whether the machine is on.
func (m *Machine) Running() bool {
	process := m.current()
	return process != nil && process.Running()
}

// current returns the process of the last boot, nil before the first.
func (m *Machine) current() *Process {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.process
}

// Console returns the console output so far.
func (m *Machine) Console() string {
	text, err := os.ReadFile(m.consolePath())
	if err != nil {
		return fmt.Sprintf("(reading the console: %v)", err)
	}
	return string(text)
}

// consoleTail is the number of console lines in an error.
const consoleTail = 15

// fail adds the end of the console to an error.
func (m *Machine) fail(doing string, err error) error {
	lines := strings.Split(strings.TrimSpace(m.Console()), "\n")
	lines = lines[max(0, len(lines)-consoleTail):]
	return fmt.Errorf("%s: %w; the end of its console:\n%s", doing, err, strings.Join(lines, "\n"))
}

// PowerOff pushes the power button and waits until the machine is off. It does
// not need SSH, and does nothing on a stopped machine.
func (m *Machine) PowerOff(ctx context.Context) error {
	if m.Running() {
		if err := m.body.press(ctx); err != nil {
			return m.fail("powering off the machine "+m.config.InstanceID, err)
		}
	}
	return m.Wait(ctx)
}

// Wait waits until the machine is off, for machines that power themselves off.
func (m *Machine) Wait(ctx context.Context) error {
	process := m.current()
	if process == nil {
		return nil
	}
	if err := process.Wait(ctx); err != nil {
		return m.fail("waiting for the machine "+m.config.InstanceID+" to power off", err)
	}
	return m.body.release()
}

// Kill ends the machine at once, like a power failure. The disk stays.
func (m *Machine) Kill() error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if err := m.process.Kill(); err != nil {
		return fmt.Errorf("killing the machine %s: %w", m.config.InstanceID, err)
	}
	return m.body.release()
}

// Capture writes the disk of a stopped machine to a bootable disk image: an MBR
// with GRUB and one ext4 partition. The image is raw and sparse, or qcow2 when
// dst ends in ".qcow2". dst is replaced when the new image is complete.
func (m *Machine) Capture(ctx context.Context, dst string) error {
	if m.Running() {
		return fmt.Errorf("capturing the machine %s: the machine is running; power it off first", m.config.InstanceID)
	}
	if err := m.capture(ctx, dst); err != nil {
		return fmt.Errorf("capturing the machine %s: %w", m.config.InstanceID, err)
	}
	return nil
}

func (m *Machine) capture(ctx context.Context, dst string) error {
	raw := dst + ".part"
	err := m.body.capture(ctx, raw)
	if err == nil && imageFormat(dst) == "qcow2" {
		packed := dst + ".packed"
		err = errors.Join(convert(ctx, "raw", raw, "qcow2", packed), os.Remove(raw))
		raw = packed
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(raw))
	}
	return os.Rename(raw, dst)
}

// Close kills the machine and removes all its files, including the disk. A
// second call does nothing.
func (m *Machine) Close() error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	err := errors.Join(m.process.Kill(), m.body.release())
	if err == nil {
		err = errors.Join(removeTree(m.folder), os.RemoveAll(filepath.Join(m.lab.leases(), m.config.InstanceID)))
	}
	if err != nil {
		return fmt.Errorf("closing the machine %s: %w", m.config.InstanceID, err)
	}
	return nil
}
