package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/moby/sys/mountinfo"
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
	cmd := exec.Command("sh", append([]string{"-c", script("nspawn-mount", "plug", "nspawn"), "sh"}, c.nspawnArgs()...)...)
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

func (c *container) capture(ctx context.Context, raw string) error {
	environment, err := c.environment()
	if err != nil {
		return err
	}
	return makeDisk(ctx, script("nspawn-mount", "nspawn-capture", "disk"), environment,
		filepath.Join(c.folder, "merged"), raw)
}

// leaving is how long a killed process may take to end.
const leaving = 10 * time.Second

// hierarchy is one mounted hierarchy of control groups.
type hierarchy struct {
	// name is the name of the hierarchy's folder in /sys/fs/cgroup: a controller of
	// cgroup v1, "systemd", "unified" or, if the hierarchy is the only one,
	// "cgroup".
	name string
	// root is the mount point, and own the harness's own group in the hierarchy.
	root, own string
	unified   bool
}

// hierarchies returns the hierarchies in which the harness has a group.
func hierarchies() ([]hierarchy, error) {
	table, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("reading the control groups: %w", err)
	}
	mounts, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, fmt.Errorf("reading the control groups: %w", err)
	}
	var all []hierarchy
	for _, mount := range mounts {
		own, found := ownGroup(string(table), mount.FSType, mount.VFSOptions)
		h := hierarchy{
			name: filepath.Base(mount.Mountpoint), root: mount.Mountpoint, own: filepath.Join(mount.Mountpoint, own),
			unified: mount.FSType == "cgroup2",
		}
		if found && !slices.Contains(all, h) {
			all = append(all, h)
		}
	}
	return all, nil
}

// ControlGroups returns the folders of the harness's own control groups in the
// hierarchies that a container's systemd uses: the unified one, and on a hybrid
// host the one named systemd. systemd-nspawn makes its groups below its
// caller's group, with the same names for every machine. Two machines started
// from one group would manage, and kill, each other's services. Each machine
// therefore gets a group of its own.
func ControlGroups() ([]string, error) {
	all, err := hierarchies()
	var folders []string
	for _, h := range all {
		if h.unified || h.name == "systemd" {
			folders = append(folders, h.own)
		}
	}
	return folders, err
}

// ownGroup looks up a hierarchy in the lines "ID:CONTROLLERS:PATH" of
// /proc/self/cgroup (see cgroups(7)). A mount of cgroup v1 lists its
// controllers among its options.
func ownGroup(table, fsType, options string) (path string, found bool) {
	if fsType != "cgroup" && fsType != "cgroup2" {
		return "", false
	}
	mounted := strings.Split(options, ",")
	for line := range strings.Lines(table) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		controllers := strings.Split(parts[1], ",")
		if fsType == "cgroup2" && parts[0] == "0" ||
			fsType == "cgroup" && parts[0] != "0" && slices.Contains(mounted, controllers[0]) {
			return parts[2], true
		}
	}
	return "", false
}

// RemoveControlGroups removes the groups whose names match, with their
// subgroups. It kills processes in them.
func RemoveControlGroups(pattern string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	var failures []error
	for _, h := range all {
		for _, folder := range slices.Compact([]string{h.own, h.root}) {
			groups, err := filepath.Glob(filepath.Join(folder, "eksnode-"+pattern))
			failures = append(failures, err)
			for _, group := range groups {
				failures = append(failures, removeControlGroup(group))
			}
		}
	}
	return errors.Join(failures...)
}

// thawGroups lets the processes of a machine's groups run.
func thawGroups(name string) error {
	all, err := hierarchies()
	for _, h := range all {
		if h.name != "freezer" {
			continue
		}
		err = errors.Join(err, filepath.WalkDir(filepath.Join(h.own, "eksnode-"+name),
			func(path string, entry fs.DirEntry, err error) error {
				if err == nil && entry.IsDir() {
					err = os.WriteFile(filepath.Join(path, "freezer.state"), []byte("THAWED"), 0)
				}
				return err
			}))
	}
	return err
}

func removeControlGroup(group string) error {
	// Only cgroup2 has the file; in a hybrid setup that is enough.
	err := os.WriteFile(filepath.Join(group, "cgroup.kill"), []byte("1"), 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("ending the processes of %s: %w", group, err)
	}
	var folders []string
	err = filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			folders = append(folders, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the control group %s: %w", group, err)
	}
	slices.Reverse(folders) // children before parents
	for _, path := range folders {
		if err := rmdir(path); err != nil {
			return fmt.Errorf("removing the control group: %w", err)
		}
	}
	return nil
}

// rmdir removes a control group. It waits for killed processes that have not
// ended yet.
func rmdir(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), leaving)
	defer cancel()
	return Poll(ctx, func() error {
		err := syscall.Rmdir(path)
		switch {
		case err == nil, errors.Is(err, syscall.ENOENT):
			return nil
		case errors.Is(err, syscall.EBUSY):
			return err
		}
		return Hopeless{Err: &fs.PathError{Op: "rmdir", Path: path, Err: err}}
	})
}
