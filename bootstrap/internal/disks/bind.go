package disks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/machine"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/render"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// carried is a folder on the array and the service that uses the folder.
type carried struct{ path, service string }

// bind returns the actions that move a folder to the array. The service is stopped
// during the copy. A folder that is already mounted is not copied.
func bind(h *host.Host, on string, f carried) ([]plan.Action, error) {
	mounted, err := h.Files.IsMountPoint(f.path)
	if err != nil {
		return nil, fmt.Errorf("looking at %s: %w", f.path, err)
	}
	u := unit{description: path.Base(f.path) + " on the instance store", what: on, where: f.path, kind: "none", options: "bind"}
	if mounted {
		return mountUnit(h, u, false)
	}
	m := &move{h: h, from: f, on: on}
	stop := run(h, "no program may write to "+f.path+" during the copy", "systemctl", "stop", m.unit())
	stop.Do = func(ctx context.Context, _ plan.Progress) error { return m.stop(ctx) }
	copying := run(h, "the folder moves to the array", "cp", "--archive", f.path+"/.", on)
	copying.Do = func(ctx context.Context, _ plan.Progress) error { return m.copy(ctx) }
	mount, err := mountUnit(h, u, true)
	actions := append([]plan.Action{stop, run(h, "the folder moves to the array", "mkdir", "-p", f.path, on), copying}, mount...)
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
