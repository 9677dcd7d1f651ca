package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/moby/sys/mountinfo"
)

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
