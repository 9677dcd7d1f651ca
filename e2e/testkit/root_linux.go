package testkit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// InRoot is the first argument of a test binary that starts itself again in a mount namespace.
// The second one is the folder that becomes its root.
const InRoot = "in-root"

// EnterRoot changes the root of a process with InRoot, and takes both arguments away. Call it
// first in TestMain.
func EnterRoot() {
	if len(os.Args) <= 2 || os.Args[1] != InRoot {
		return
	}
	if err := enter(os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "entering the root:", err)
		os.Exit(1)
	}
	os.Args = append(os.Args[:1], os.Args[3:]...)
}

// enter makes a folder the root, with the kernel's /proc and /dev/null. The root is a mount,
// so that it is the first entry of the mount table.
func enter(root string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	for _, m := range [][2]string{{root, root}, {"/proc", root + "/proc"}, {os.DevNull, filepath.Join(root, os.DevNull)}} {
		if err := unix.Mount(m[0], m[1], "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return err
		}
	}
	if err := unix.Chroot(root); err != nil {
		return err
	}
	return os.Chdir("/")
}

// OpenTerminal opens a new terminal. What a program writes to its end comes from the master.
func OpenTerminal() (master, end *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		end, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("opening a terminal: %w", err), master.Close())
	}
	return master, end, nil
}
