// Package place plans that files lie on a machine exactly as they are rendered,
// and that those of an earlier description are gone.
package place

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/render"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// Plan plans the files that are not there with this content, mode and owner,
// and the removal of what an interrupted write left. Nothing is planned for a
// file that is right: its times stay.
func Plan(h *host.Host, files []render.File) ([]plan.Action, error) {
	var actions []plan.Action
	for _, f := range files {
		left, err := leftovers(h, f.Path)
		if err != nil {
			return nil, err
		}
		actions = append(actions, left...)
		same, err := isThere(h, f)
		if err != nil {
			return nil, fmt.Errorf("looking at %s: %w", f.Path, err)
		}
		if !same {
			actions = append(actions, plan.Action{Verb: plan.Write, Target: f.Path, Reason: f.Why,
				Do: func(context.Context, plan.Progress) error { return write(h, f) }})
		}
	}
	return actions, nil
}

// isThere does not follow a link in the file's place: writing replaces it.
func isThere(h *host.Host, f render.File) (bool, error) {
	st, err := h.Files.Lstat(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || !st.Mode().IsRegular() {
		return false, err
	}
	content, err := h.Content(f.Path)
	if err != nil || !bytes.Equal(content, f.Content) {
		return false, err
	}
	attr, err := h.Files.Attributes(f.Path)
	return attr == host.Attributes{Mode: f.Mode}, err
}

func write(h *host.Host, f render.File) error {
	if target, err := h.Files.ReadlinkIfPossible(f.Path); err == nil {
		if err := h.Files.Remove(f.Path); err != nil {
			return fmt.Errorf("replacing the link to %s: %w", target, err)
		}
	}
	return h.Files.WriteFile(f.Path, f.Content, host.Attributes{Mode: f.Mode})
}

// IsThere says whether there is anything of that name, a dangling link too.
func IsThere(h *host.Host, name string) (bool, error) {
	_, err := h.Files.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking at %s: %w", name, err)
	}
	return true, nil
}

// Absent plans the removal of files that are there.
func Absent(h *host.Host, why string, names ...string) ([]plan.Action, error) {
	var actions []plan.Action
	for _, name := range names {
		there, err := IsThere(h, name)
		if err != nil {
			return nil, err
		}
		if !there {
			continue
		}
		actions = append(actions, plan.Action{Verb: plan.Remove, Target: name, Reason: why,
			Do: func(context.Context, plan.Progress) error {
				_, err := h.Files.RemoveTree(name)
				return err
			}})
	}
	return actions, nil
}

// Link plans a symbolic link.
func Link(h *host.Host, name, target, why string) ([]plan.Action, error) {
	if to, err := h.Files.ReadlinkIfPossible(name); err == nil && to == target {
		return nil, nil
	}
	return []plan.Action{{Verb: plan.Link, Target: name, Reason: why, Do: func(context.Context, plan.Progress) error {
		if err := h.Files.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		if _, err := h.Files.RemoveTree(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return h.Files.SymlinkIfPossible(target, name)
	}}}, nil
}

// IsOurs says whether a file begins with the mark of this program.
func IsOurs(h *host.Host, name string) (bool, error) {
	content, err := h.Content(name)
	if err != nil {
		return false, fmt.Errorf("looking at %s: %w", name, err)
	}
	return strings.HasPrefix(string(content), render.Mark+"\n"), nil
}

// leftovers plans the removal of what a killed write of name left beside it.
func leftovers(h *host.Host, name string) ([]plan.Action, error) {
	names, err := h.Leftovers(name)
	if err != nil {
		return nil, err
	}
	return Absent(h, "an interrupted run left it", names...)
}
