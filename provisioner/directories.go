package provisioner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// directories makes the folders. Existing folders keep their modes, which their
// package or owner decides.
func (n *node) directories(_ context.Context, h *host.Host) ([]plan.Action, error) {
	var g gathered
	for _, f := range n.stepFiles("directories") {
		g.add(planFolder(h, f.Path, f.Why))
	}
	return g.all()
}

func planFolder(h *host.Host, name, why string) ([]plan.Action, error) {
	st, err := h.Files.Stat(name)
	switch {
	case err == nil && st.IsDir():
		return nil, nil
	case err == nil:
		return nil, fmt.Errorf("%s must be a folder but is a file; remove the file", name)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return []plan.Action{act(plan.Mkdir, name, why, func(context.Context) error {
		if err := h.Files.MkdirAll(name, 0o755); err != nil {
			return err
		}
		return h.Files.Chmod(name, 0o755)
	})}, nil
}
