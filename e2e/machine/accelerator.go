package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// probeLimit is how long a kernel under KVM may take until it reports the
// missing root file system. It normally takes about a second.
const probeLimit = 20 * time.Second

// probeMark is the last message of a kernel without a root file system.
const probeMark = "Unable to mount root fs"

// software selects emulation; qemu64 is the fastest emulated processor because
// it has the fewest features.
func software() []string { return []string{"-accel", "tcg,thread=multi", "-cpu", "qemu64"} }

func hardware() []string { return []string{"-accel", "kvm", "-cpu", "host"} }

// accelerator returns qemu's options: KVM when it works on this host, otherwise
// software emulation. The existence of /dev/kvm is not enough: if the host is
// itself a virtual machine, qemu may start and the kernel may still hang. The
// first call therefore boots the kernel of LabConfig and checks its progress.
func (l *Lab) accelerator() ([]string, error) {
	l.probe.Do(func() {
		l.accel, l.probeErr = software(), nil
		if l.config.Kernel == "" {
			return
		}
		works, err := probeKVM(l.config.Kernel)
		if works {
			l.accel = hardware()
		}
		l.probeErr = err
		fmt.Fprintf(l.config.Log, "virtual machines run with %v\n", l.accel)
	})
	return l.accel, l.probeErr
}

func probeKVM(kernel string) (bool, error) {
	if _, err := os.Stat("/dev/kvm"); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	kernel, err := filepath.EvalSymlinks(kernel)
	if err != nil {
		return false, fmt.Errorf("probing KVM: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeLimit)
	defer cancel()
	args := append(hardware(), "-nodefaults", "-no-user-config", "-display", "none", "-m", "256", "-no-reboot",
		"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
		"-kernel", kernel, "-append", "console=ttyS0 panic=-1")
	// qemu's exit status does not matter, only the kernel's progress.
	out, err := exec.CommandContext(ctx, "qemu-system-x86_64", args...).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return false, fmt.Errorf("probing KVM: %w", err)
	}
	return bytes.Contains(out, []byte(probeMark)), nil
}
