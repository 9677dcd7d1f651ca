package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// container is a machine of kind Nspawn: an overlay over the base tree or over
// the file system in a captured image, booted by systemd-nspawn.
//
// It runs in mount, process and network namespaces of its own, so that its
// mounts, loop device, link and processes end with its first process. (Without
// the namespaces, a killed systemd-nspawn leaves the container's systemd
// running and its overlay mounted.)
type container struct{ *Machine }

// mountScript mounts the machine's disk at ./merged, in the mount namespace of
// its shell. Relative paths need no quoting within the options. The loop mount
// uses an offset, because device nodes of partitions need udev.
const mountScript = `set -e
mount --make-rprivate /
cd "$FOLDER"
if [ -n "$IMAGE" ]; then
  mount -t ext4 -o loop,ro,noload,offset=$OFFSET "$IMAGE" lower
else
  mount --bind "$ROOT" lower
fi
mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work overlay merged
`

// bootScript runs systemd-nspawn, again after each restart of the container. It
// runs in new namespaces but with the host's /proc, through which it reaches the
// lab's network namespace. systemd-nspawn leaves restarts to its service manager
// and exits with code 133, because of --keep-unit.
const bootScript = mountScript + plugScript + `IFS=:
for group in $CGROUPS; do
  mkdir "$group"
done
unset IFS
mount -t proc proc /proc
mkdir -p /run/systemd/nspawn
mount -t tmpfs tmpfs /run/systemd/nspawn
mkdir -p "merged$SEED_FOLDER"
boot() {
  IFS=:
  for group in $CGROUPS; do
    mkdir "$group/$boots"
    echo 0 > "$group/$boots/cgroup.procs"
  done
  unset IFS
  exec systemd-nspawn "$@"
}
trap 'kill "$child"' TERM
boots=0
code=133
while [ "$code" = 133 ]; do
  boots=$((boots + 1))
  boot "$@" &
  child=$!
  # The signal ends wait before the container has ended.
  while code=0; wait "$child" || code=$?; kill -0 "$child" 2>/dev/null; do :; done
done
exit "$code"`

func (c *container) prepare(ctx context.Context) error {
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(c.folder, name), 0o755); err != nil {
			return fmt.Errorf("preparing the overlay: %w", err)
		}
	}
	if imageFormat(c.config.Image) == "qcow2" {
		return convert(ctx, "qcow2", c.config.Image, "raw", c.raw())
	}
	return nil
}

// raw returns the captured image in a form that a loop device can use.
func (c *container) raw() string {
	if imageFormat(c.config.Image) == "qcow2" {
		return filepath.Join(c.folder, "image.raw")
	}
	return c.config.Image
}

func (c *container) environment() ([]string, error) {
	root, image := c.config.Root, ""
	var err error
	if c.config.Image != "" {
		image, err = filepath.Abs(c.raw())
	} else {
		root, err = filepath.Abs(root)
	}
	if err != nil {
		return nil, fmt.Errorf("finding the machine's disk: %w", err)
	}
	return append(os.Environ(),
		"FOLDER="+c.folder, "ROOT="+root, "IMAGE="+image,
		fmt.Sprintf("OFFSET=%d", partitionStart), "SEED_FOLDER="+seedFolder,
	), nil
}

func (c *container) boot() (*Process, error) {
	groups, err := ControlGroups()
	if err != nil {
		return nil, err
	}
	if len(groups) == 0 {
		return nil, errors.New("finding the control groups: a container needs cgroup2 mounted below /sys/fs/cgroup")
	}
	for i := range groups {
		groups[i] = filepath.Join(groups[i], "eksnode-"+c.controlGroup())
	}
	console, err := os.OpenFile(c.consolePath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer console.Close()
	environment, err := c.environment()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("sh", append([]string{"-c", bootScript, "sh"}, c.nspawnArgs()...)...)
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET}
	cmd.Stdout, cmd.Stderr = console, console
	cmd.Env = append(environment,
		"MAC="+c.mac.String(), "LINK="+c.link(), "LAB="+c.lab.namespace.path, "BRIDGE="+bridge,
		"CGROUPS="+strings.Join(groups, ":"),
		"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1",
		// /tmp of a Debian machine is part of its disk, and so of its image.
		"SYSTEMD_NSPAWN_TMPFS_TMP=0",
		"SYSTEMD_NSPAWN_API_VFS_WRITABLE=network",
		// As the first process of its namespace, systemd-nspawn would log to the
		// host's kernel.
		"SYSTEMD_LOG_TARGET=console",
	)
	return Spawn(cmd)
}

func (c *container) nspawnArgs() []string {
	return []string{
		"--directory=merged", "--machine=" + c.config.InstanceID, "--hostname=localhost",
		// There may be no systemd on the host to register with.
		"--register=no", "--keep-unit",
		"--kill-signal=SIGRTMIN+4",
		"--resolv-conf=off", "--timezone=off", "--link-journal=no", "--console=read-only",
		"--network-namespace-path=/proc/self/ns/net", "--capability=CAP_NET_ADMIN",
		"--bind-ro=" + bindPath(c.seedPath()) + ":" + seedFolder,
		"--boot",
	}
}

// bindPath quotes a path for systemd-nspawn's --bind options.
func bindPath(path string) string {
	return strings.NewReplacer(`\`, `\\`, `:`, `\:`).Replace(path)
}

// press sends systemd-nspawn's kill signal, SIGRTMIN+4, which makes the
// container's systemd power off.
func (c *container) press(context.Context) error { return c.current().Signal(unix.SIGTERM) }

func (c *container) release() error { return RemoveControlGroups(c.controlGroup()) }

// captureScript leaves out the mount point of the instance data, unless the
// machine's source had it.
const captureScript = mountScript + `
[ -e "lower$SEED_FOLDER" ] || rmdir "merged$SEED_FOLDER" 2>/dev/null || :
[ -e "lower${SEED_FOLDER%/*}" ] || rmdir "merged${SEED_FOLDER%/*}" 2>/dev/null || :
` + diskScript

func (c *container) capture(ctx context.Context, raw string) error {
	environment, err := c.environment()
	if err != nil {
		return err
	}
	return makeDisk(ctx, captureScript, environment, filepath.Join(c.folder, "merged"), raw)
}
