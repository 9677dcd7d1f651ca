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
)

// node is a machine of kind Node: systemd as the first process of namespaces of
// its own, on a copy of the disk image. systemd-nspawn's containers cannot run
// pods: their disk is an overlay, which cannot be the lower layer of
// containerd's overlays, and their controllers of cgroup v1 are read-only.
type node struct{ *Machine }

// nodeScript mounts the machine's disk and becomes its first process. /proc and
// /sys show the host's kernel: parts outside the machine's own namespaces are
// read-only, and the three sysctls that a kubelet requires have the required
// values. Files in /run, which is not part of the disk, replace what the host
// does not permit.
const nodeScript = `set -e
mount --make-rprivate /
cd "$FOLDER"
mount -t ext4 -o loop,offset=$OFFSET disk.raw root
` + plugScript + `while read -r name group; do
  mkdir "$group"
  if [ "$name" = unified-only ]; then
    for c in $(cat "${group%/*}/cgroup.controllers"); do echo "+$c" > "${group%/*}/cgroup.subtree_control" || :; done
  fi
  if [ "$name" = cpuset ]; then
    for f in cpuset.cpus cpuset.mems; do cat "${group%/*}/$f" > "$group/$f"; done
  fi
  echo 0 > "$group/cgroup.procs"
done < groups
exec unshare --cgroup sh -ec "$INSIDE"`

// insideScript continues in the namespace of the control groups, where the new
// groups are the roots of their hierarchies.
const insideScript = `
mount -t proc -o nosuid,nodev,noexec proc root/proc
mount --bind root/proc/sys/net root/proc/sys/net
mount --rbind root/proc/sys root/proc/sys
mount -o remount,bind,ro root/proc/sys
for sysctl in vm/overcommit_memory:1 kernel/panic:10 kernel/panic_on_oops:1; do
  echo "${sysctl#*:}" > "sysctl-${sysctl##*/}"
  mount --bind "sysctl-${sysctl##*/}" "root/proc/sys/${sysctl%:*}"
done
cat /proc/sys/kernel/random/uuid > boot-id # by which a journal knows its boots
mount --bind boot-id root/proc/sys/kernel/random/boot_id
[ ! -e root/proc/sysrq-trigger ] || mount --bind /dev/null root/proc/sysrq-trigger
mount -t sysfs -o ro,nosuid,nodev,noexec sysfs root/sys
if grep -q '^unified-only ' groups; then
  mount -t cgroup2 cgroup2 root/sys/fs/cgroup
else
  mount -t tmpfs -o mode=755 tmpfs root/sys/fs/cgroup
  while read -r name group; do
    mkdir "root/sys/fs/cgroup/$name"
    case "$name" in
    unified) mount -t cgroup2 cgroup2 root/sys/fs/cgroup/unified ;;
    systemd) mount -t cgroup -o none,name=systemd cgroup root/sys/fs/cgroup/systemd ;;
    *) mount -t cgroup -o "$name" cgroup "root/sys/fs/cgroup/$name" ;;
    esac
  done < groups
fi
mount -t tmpfs -o mode=755,nosuid tmpfs root/dev
mkdir root/dev/pts root/dev/shm root/dev/mqueue
for device in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0 kmsg:1:3 console:1:3; do
  IFS=:
  set -- $device
  unset IFS
  mknod -m 666 "root/dev/$1" c "$2" "$3"
done
mount --bind console.log root/dev/console
: > root/dev/ttyS0
mount --bind "$SERIAL" root/dev/ttyS0
mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts root/dev/pts
ln -s pts/ptmx root/dev/ptmx
ln -s /proc/self/fd root/dev/fd
for n in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${n%:*}" "root/dev/${n#*:}"; done
mount -t tmpfs -o nosuid,nodev tmpfs root/dev/shm
mount -t tmpfs -o mode=755,nosuid,nodev tmpfs root/run
cp -r run/. root/run/
mkdir -p "root$SEED_FOLDER"
mount --bind seed "root$SEED_FOLDER"
cd root
pivot_root . mnt
umount -l /mnt
mount --make-rshared / # as systemd does on a machine: see mount_namespaces(7)
exec env -i container=eksnode-lab PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  setpriv --bounding-set=-sys_module,-sys_time --inh-caps=-all /sbin/init --log-target=console SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1`

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
		return run(ctx, "", "cp", "--sparse=always", "--reflink=auto", n.config.Image, n.Disk())
	}
}

func (n *node) prepare(ctx context.Context) error {
	if err := n.makeDisk(ctx); err != nil {
		return fmt.Errorf("making the disk: %w", err)
	}
	for name, content := range concessions {
		path := filepath.Join(n.folder, "run", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("preparing /run: %w", err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
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
	serial, path, err := terminal(n.consolePath())
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("sh", "-c", nodeScript)
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC}
	cmd.Stdout, cmd.Stderr = console, console
	cmd.Env = append(os.Environ(),
		"FOLDER="+n.folder, fmt.Sprintf("OFFSET=%d", partitionStart), "SEED_FOLDER="+seedFolder, "INSIDE="+insideScript,
		"MAC="+n.mac.String(), "LINK="+n.link(), "LAB="+n.lab.namespace.path, "BRIDGE="+bridge, "SERIAL="+path,
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
func terminal(file string) (end *os.File, path string, err error) {
	out, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return nil, "", err
	}
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, "", errors.Join(err, out.Close())
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	path = fmt.Sprintf("/dev/pts/%d", number)
	if err == nil {
		end, err = os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("opening a terminal: %w", err), master.Close(), out.Close())
	}
	go func() {
		_, _ = io.Copy(out, master) // EIO when nobody has the terminal any more
		_, _ = master.Close(), out.Close()
	}()
	return end, path, nil
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
	out, err := exec.CommandContext(ctx, "cp", "--sparse=always", "--reflink=auto", n.Disk(), raw).CombinedOutput()
	if err != nil {
		return fmt.Errorf("copying the disk: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
