package host

import (
	"os/exec"

	"golang.org/x/sys/unix"
)

// ownGroup gives a command its own process group and ends the whole group on
// cancellation. Otherwise apt, for example, leaves child processes behind.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGTERM) }
}

// killGroup kills the rest of a cancelled command's group: a package's maintainer
// script may ignore SIGTERM and outlive the command.
func killGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // an error means that no process is left
	}
}
