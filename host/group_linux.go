package host

import (
	"os/exec"

	"golang.org/x/sys/unix"
)

// ownGroup gives a command a process group of its own and ends the whole group
// on cancellation: apt and its kind leave children behind otherwise.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGTERM) }
}

// killGroup ends what is left of a cancelled command's group: a maintainer's
// script may ignore SIGTERM, and outlive the command that it belongs to.
func killGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // an error says that nothing is left
	}
}
