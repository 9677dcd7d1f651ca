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

// carried is a folder that lies on the array, and the service that works in it.
type carried struct{ path, service string }

// bind plans that a folder lies on the array: its content is copied there while
// the service does not run. A folder that is mounted already is not copied.
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
	stop := run(h, "nobody may write to "+f.path+" while it is copied", "systemctl", "stop", m.unit())
	stop.Do = func(ctx context.Context, _ plan.Progress) error { return m.stop(ctx) }
	copying := run(h, "the array carries it", "cp", "--archive", f.path+"/.", on)
	copying.Do = func(ctx context.Context, _ plan.Progress) error { return m.copy(ctx) }
	mount, err := mountUnit(h, u, true)
	actions := append([]plan.Action{stop, run(h, "the array carries it", "mkdir", "-p", f.path, on), copying}, mount...)
	for i, a := range actions {
		actions[i] = m.orStart(a)
	}
	return actions, err
}

// move is the way of a folder to the array.
type move struct {
	h    *host.Host
	from carried
	on   string
	// stopped says that the service ran before.
	stopped bool
}

func (m *move) unit() string { return m.from.service + ".service" }

func (m *move) stop(ctx context.Context) (err error) {
	if m.from.path == machine.SOCIFolder { // the only service that an image may lack
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

// copy copies the folder under another name and then renames it, so that the
// array has all of it or nothing. What the array has from an earlier boot is
// newer than the folder and stays, except for what this boot has written.
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

// refresh copies the files of the folder that were written before the disks.
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
