package disks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/machine"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/render"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// arrayDevice is the array's device until the next boot.
const arrayDevice = "/dev/md/" + arrayName

// array returns the array's device and the actions that create or assemble the
// array. Empty disks become a new array. Members of one array that eksnode created
// are assembled. Other content is an error.
func array(h *host.Host, members []string, level string) (string, []plan.Action, error) {
	users, err := users(h, members)
	if err != nil {
		return "", nil, err
	}
	if len(users) == 0 && h.IsLive() && !h.HasCommand("mdadm") {
		return "", nil, errors.New("an array needs mdadm, which this image does not have: build the image with " +
			"packages = [\"mdadm\"], or use the strategy Mount")
	}
	made, err := areOneArray(h, members)
	if err != nil {
		return "", nil, err
	}
	if len(users) > 0 {
		device, err := assembled(h, users, made)
		return device, nil, err
	}
	there, err := h.Exists(arrayDevice)
	if err != nil {
		return "", nil, fmt.Errorf("looking at %s: %w", arrayDevice, err)
	}
	if there {
		return "", nil, fmt.Errorf("the array %s has disks outside the instance store; stop this array with mdadm "+
			"--stop", arrayDevice)
	}
	if made {
		argv := []string{"mdadm", "--assemble", "--run", arrayDevice}
		why := "the disks are an array that was not assembled at boot"
		return arrayDevice, []plan.Action{plan.Command(h, why, append(argv, members...)...)}, nil
	}
	argv := []string{"mdadm", "--create", "--run", "--force", arrayDevice, "--level=" + level, "--name=" + arrayName,
		fmt.Sprintf("--raid-devices=%d", len(members))}
	create := plan.Command(h, "creates one array from the instance store's disks", append(argv, members...)...)
	// mdadm --run overwrites without a question, so check the disks again.
	return arrayDevice, []plan.Action{after(create, func() (bool, error) {
		made, err := areOneArray(h, members)
		if err == nil && made {
			err = fmt.Errorf("the content of %s has changed to %s", members[0], arrayMember)
		}
		return true, err
	})}, nil
}

// after has an action done only if a look, directly before, says that it is
// needed.
func after(a plan.Action, needed func() (bool, error)) plan.Action {
	do := a.Do
	a.Do = func(ctx context.Context, p plan.Progress) error {
		if need, err := needed(); err != nil || !need {
			return err
		}
		return do(ctx, p)
	}
	return a
}

// areOneArray reports whether the disks are the members of one array that eksnode
// created; false means that all disks are empty. Other content, and a mixture of
// both, is an error that names the disk.
func areOneArray(h *host.Host, members []string) (bool, error) {
	var first content
	for i, m := range members {
		c, err := probe(h, m)
		if err != nil {
			return false, err
		}
		switch {
		case c.name != "" && (c.name != arrayMember || c.uuid == ""):
			return false, refusal(m, c)
		case !isOwn(c.array):
			return false, fmt.Errorf("%s holds a member of the array %q, which eksnode did not create; clear the "+
				"disk with blkdiscard --zeroout if its content is not needed", m, c.array)
		case i == 0:
			first = c
		case c.name != first.name:
			empty, member := m, members[0]
			if first.name == "" {
				empty, member = member, empty
			}
			return false, fmt.Errorf("%[1]s holds %[2]s, but %[3]s is empty; clear %[1]s with blkdiscard --zeroout "+
				"if its content is not needed", member, arrayMember, empty)
		case c != first:
			return false, fmt.Errorf("%s and %s are members of different arrays; clear both disks with blkdiscard "+
				"--zeroout if their content is not needed", members[0], m)
		}
	}
	return first.name != "", nil
}

// isOwn reports whether an array's name, after the host's name, is the name that
// eksnode gives. mdadm names every array, so an empty name means no array.
func isOwn(array string) bool {
	return array == "" || array[strings.LastIndexByte(array, ':')+1:] == arrayName
}

// user is a device that uses a disk.
type user struct{ name, disk string }

// users lists the devices that use the disks, each once, from the kernel's list.
func users(h *host.Host, disks []string) ([]user, error) {
	var all []user
	for _, disk := range disks {
		entries, err := afero.ReadDir(h.Files, path.Join("/sys/block", path.Base(disk), "holders"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("listing the devices that use %s: %w", disk, err)
		}
		for _, e := range entries {
			if !slices.ContainsFunc(all, func(u user) bool { return u.name == e.Name() }) {
				all = append(all, user{e.Name(), disk})
			}
		}
	}
	return all, nil
}

// assembled returns the array that uses the disks, or an empty text. made says that
// the disks are members of an array.
func assembled(h *host.Host, users []user, made bool) (string, error) {
	u := users[0]
	switch {
	case len(users) > 1:
		return "", fmt.Errorf("the instance store's disks are in several arrays (%s has %s, %s has %s); stop one "+
			"array with mdadm --stop",
			u.name, u.disk, users[1].name, users[1].disk)
	case !made, !strings.HasPrefix(u.name, "md"):
		return "", fmt.Errorf("%s is used by %s, which is not an array of the instance store", u.disk, u.name)
	}
	return path.Join("/dev", u.name), isRunning(h, u.name)
}

// isUnused returns an error for a disk that another device uses. A file system at
// the disk's beginning may be only a part of that device's content.
func isUnused(h *host.Host, disk string) error {
	users, err := users(h, []string{disk})
	if err == nil && len(users) > 0 {
		err = fmt.Errorf("%[1]s is in use by %[2]s; stop %[2]s first", disk, users[0].name)
	}
	return err
}

// isRunning returns an error for an array that the kernel lists but cannot use, for
// example because a disk is missing.
func isRunning(h *host.Host, array string) error {
	state, err := h.Content(path.Join("/sys/block", array, "md/array_state"))
	if err != nil {
		return fmt.Errorf("looking at the array %s: %w", array, err)
	}
	if word := strings.TrimSpace(string(state)); slices.Contains([]string{"clear", "inactive", "broken"}, word) {
		return fmt.Errorf("the array /dev/%s is %s; mdadm --detail shows the missing disks", array, word)
	}
	return nil
}

// carried is a folder on the array and the service that uses the folder.
type carried struct{ path, service string }

// bind returns the actions that move a folder to the array. The service is stopped
// during the copy. A folder that is already mounted is not copied.
func bind(h *host.Host, on string, f carried) ([]plan.Action, error) {
	mounted, err := h.Files.IsMountPoint(f.path)
	if err != nil {
		return nil, fmt.Errorf("looking at %s: %w", f.path, err)
	}
	u := unit{description: path.Base(f.path) + " on the instance store", what: on, where: f.path, kind: "none",
		options: "bind"}
	if mounted {
		return mountUnit(h, u, false)
	}
	m := &move{h: h, from: f, on: on}
	stop := plan.Command(h, "no program may write to "+f.path+" during the copy", "systemctl", "stop", m.unit())
	stop.Do = func(ctx context.Context, _ plan.Progress) error { return m.stop(ctx) }
	copying := plan.Command(h, "the folder moves to the array", "cp", "--archive", f.path+"/.", on)
	copying.Do = func(ctx context.Context, _ plan.Progress) error { return m.copy(ctx) }
	mount, err := mountUnit(h, u, true)
	actions := append([]plan.Action{stop, plan.Command(h, "the folder moves to the array", "mkdir", "-p", f.path, on),
		copying}, mount...)
	for i, a := range actions {
		actions[i] = m.orStart(a)
	}
	return actions, err
}

// move copies a folder to the array.
type move struct {
	h    *host.Host
	from carried
	on   string
	// stopped says that move stopped the running service.
	stopped bool
}

func (m *move) unit() string { return m.from.service + ".service" }

func (m *move) stop(ctx context.Context) (err error) {
	if m.from.path == machine.SOCIFolder { // an image may lack only this service
		if there, err := m.h.HasUnit(m.unit()); err != nil || !there {
			return err
		}
	}
	if m.stopped, err = m.h.IsActive(ctx, m.unit()); err != nil {
		return err
	}
	_, err = m.h.Run(ctx, host.Command{Argv: []string{"systemctl", "stop", m.unit()}})
	return err
}

// orStart starts the service again when an action fails.
func (m *move) orStart(a plan.Action) plan.Action {
	do := a.Do
	a.Do = func(ctx context.Context, p plan.Progress) error {
		err := do(ctx, p)
		if err != nil && m.stopped {
			m.stopped = false
			err = errors.Join(err, m.h.PutBack(ctx, host.Command{Argv: []string{"systemctl", "start", m.unit()}}))
		}
		return err
	}
	return a
}

// copy copies the folder under a temporary name and then renames the copy, so the
// array never has a partial copy. Files that the array has from an earlier boot are
// newer than the folder's and stay, except for files that this boot wrote.
func (m *move) copy(ctx context.Context) error {
	there, err := afero.ReadDir(m.h.Files, m.on)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("looking at %s: %w", m.on, err)
	}
	if len(there) > 0 {
		return m.refresh(ctx)
	}
	part := m.on + ".part"
	if _, err := m.h.Files.RemoveTree(part); err != nil {
		return fmt.Errorf("removing an interrupted copy: %w", err)
	}
	if _, err := m.h.Run(ctx, host.Command{Argv: []string{"cp", "--archive", m.from.path + "/.", part}}); err != nil {
		return err
	}
	if err := m.h.Files.Rename(part, m.on); err != nil {
		return fmt.Errorf("renaming the copy: %w", err)
	}
	return nil
}

// refresh copies the files that this boot wrote to the folder before the disks were
// mounted.
func (m *move) refresh(ctx context.Context) error {
	for _, name := range []string{render.Kubeconfig, render.BootstrapKubeconfig} {
		there, err := m.h.Exists(name)
		if err != nil {
			return fmt.Errorf("looking at %s: %w", name, err)
		}
		if !there || path.Dir(name) != m.from.path {
			continue
		}
		if _, err := m.h.Run(ctx, host.Command{Argv: []string{"cp", "--archive", name, m.on}}); err != nil {
			return err
		}
	}
	return nil
}
