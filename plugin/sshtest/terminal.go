//go:build linux

package sshtest

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openTerminal gives both ends of a new terminal; the master lives as long as
// the test.
func (m *Machine) openTerminal() (master, slave *os.File) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		m.t.Error(err)
		return nil, nil
	}
	m.t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		m.t.Error(err)
		return nil, nil
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		m.t.Error(err)
		return nil, nil
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		m.t.Error(err)
	}
	return master, slave
}
