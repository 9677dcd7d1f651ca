package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// node is a machine of kind Node: systemd as the first process of namespaces of
// its own, on a copy of the disk image. systemd-nspawn's containers cannot run
// pods: their disk is an overlay, which cannot be the lower layer of
// containerd's overlays, and their controllers of cgroup v1 are read-only.
type node struct{ *Machine }

// concessions are files in /run for limits of the host: the number of open
// files and the OOM score. The time to stop is short because a kubelet stops
// its containers only at the end of a shutdown.
var concessions = map[string]string{
	"systemd/system.conf.d/lab.conf":                  "[Manager]\nDefaultTimeoutStopSec=10s\n",
	"systemd/system/containerd.service.d/lab.conf":    "[Service]\nLimitNOFILE=\nLimitNPROC=\nLimitCORE=\nOOMScoreAdjust=0\n",
	"systemd/system/console-getty.service.d/lab.conf": "[Unit]\nConditionPathExists=/no/terminal\n",
	"systemd/system/run-rpc_pipefs.mount.d/lab.conf":  "[Unit]\nConditionPathExists=/no/kernel/module\n",
}

// makeDisk copies, converts or moves the image.
func (n *node) makeDisk(ctx context.Context) error {
	switch {
	case n.config.Move:
		return os.Rename(n.config.Image, n.Disk())
	case imageFormat(n.config.Image) == "qcow2":
		return convert(ctx, "qcow2", n.config.Image, "raw", n.Disk())
	default:
		return copyDisk(ctx, n.config.Image, n.Disk())
	}
}

func (n *node) prepare(ctx context.Context) error {
	if err := n.makeDisk(ctx); err != nil {
		return fmt.Errorf("making the disk: %w", err)
	}
	for name, content := range concessions {
		err := base.Write(filepath.Join(n.folder, "run"), base.File{Path: name, Content: content, Mode: 0o644})
		if err != nil {
			return fmt.Errorf("preparing /run: %w", err)
		}
	}
	return os.Mkdir(filepath.Join(n.folder, "root"), 0o755)
}

// groups writes the list of the machine's control groups, one a line: name and
// folder. The only group of a unified hierarchy is its root, because only the
// root may have processes and delegate controllers at once.
func (n *node) groups() error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	var list strings.Builder
	for _, h := range all {
		if h.unified && len(all) == 1 {
			h.name, h.own = "unified-only", h.root
		}
		fmt.Fprintf(&list, "%s %s\n", h.name, filepath.Join(h.own, "eksnode-"+n.controlGroup()))
	}
	if list.Len() == 0 {
		return errors.New("finding the control groups: a node needs them mounted below /sys/fs/cgroup")
	}
	return os.WriteFile(filepath.Join(n.folder, "groups"), []byte(list.String()), 0o644)
}

func (n *node) boot() (*Process, error) {
	if err := n.groups(); err != nil {
		return nil, err
	}
	console, err := os.OpenFile(n.consolePath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer console.Close()
	serial, err := terminal(n.consolePath())
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("sh", "-c", script("node-disk", "plug", "node"))
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC}
	cmd.Stdout, cmd.Stderr = console, console
	cmd.Env = append(os.Environ(),
		"FOLDER="+n.folder, fmt.Sprintf("OFFSET=%d", partitionStart),
		"SEED_FOLDER="+seedFolder, "INSIDE="+script("node-inside"),
		"MAC="+n.mac.String(), "LINK="+n.link(), "LAB="+n.lab.namespace.path, "BRIDGE="+bridge, "SERIAL="+serial.Name(),
	)
	p, err := Spawn(cmd)
	if err != nil {
		return nil, errors.Join(err, serial.Close())
	}
	go n.thaw(p)
	go func() {
		<-p.done
		_ = serial.Close()
	}()
	return p, nil
}

// terminal opens a terminal whose output is appended to a file until the terminal is closed.
func terminal(file string) (*os.File, error) {
	out, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	master, end, err := testkit.OpenTerminal()
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	go func() {
		_, _ = io.Copy(out, master) // EIO when nobody has the terminal any more
		_, _ = master.Close(), out.Close()
	}()
	return end, nil
}

// thaw lets frozen processes end with the machine: runc freezes a container for a moment,
// and cgroup v1 does not kill what is frozen. The machine's first process would wait for
// it for ever, without a command line.
func (n *node) thaw(p *Process) {
	_ = PollEvery(context.Background(), time.Second, func() error {
		if !p.Running() {
			return nil
		}
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID()))
		if err == nil && len(line) == 0 {
			err = thawGroups(n.controlGroup())
		}
		return errors.Join(errors.New("the machine runs"), err)
	})
}

// powerOffSignal makes systemd power off: SIGRTMIN+4 (see systemd(1)).
const powerOffSignal = unix.Signal(34 + 4)

func (n *node) press(context.Context) error { return n.current().Signal(powerOffSignal) }

// release waits until the kernel has released the disk. The kernel unmounts a
// file system some time after its last process has ended.
func (n *node) release() error {
	ctx, cancel := context.WithTimeout(context.Background(), leaving)
	defer cancel()
	err := Poll(ctx, func() error {
		out, err := exec.CommandContext(ctx, "losetup", "--associated", n.Disk()).Output()
		if err == nil && len(out) > 0 {
			err = fmt.Errorf("unmounting the disk: %s", out)
		}
		return err
	})
	return errors.Join(err, RemoveControlGroups(n.controlGroup()))
}

// capture copies the disk, including the blocks outside of files.
func (n *node) capture(ctx context.Context, raw string) error {
	return copyDisk(ctx, n.Disk(), raw)
}

func copyDisk(ctx context.Context, from, to string) error {
	return do("copying the disk", exec.CommandContext(ctx, "cp", "--sparse=always", "--reflink=auto", from, to))
}
