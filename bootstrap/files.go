package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/render"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// configuration writes the rendered files and removes those of an earlier
// configuration.
type configuration struct {
	files   []render.File
	daemons []string
	// transient says that every boot renders the files again.
	transient bool
}

func (configuration) ID() string    { return "configuration" }
func (configuration) Phase() string { return string(Config) }

// Plan implements plan.Item. Done means that every file is as rendered and that no
// file of an earlier configuration is left.
func (c configuration) Plan(_ context.Context, h *host.Host) (plan.Answer, error) {
	files := c.files
	if len(c.daemons) > 0 {
		files = slices.DeleteFunc(slices.Clone(files), func(f render.File) bool { return !c.concerns(f) })
	}
	var wanted []plan.File
	for _, f := range files {
		wanted = append(wanted, plan.File{Path: f.Path, Content: f.Content, Mode: f.Mode, Why: f.Why, Transient: c.transient})
	}
	actions, err := plan.Files(h, wanted)
	if err != nil || len(c.daemons) > 0 {
		return plan.Acts(actions...), err
	}
	candidates := render.Possible()
	ours, err := marked(h)
	if err != nil {
		return plan.Answer{}, err
	}
	var old []string
	for _, name := range append(candidates, ours...) {
		if !slices.ContainsFunc(files, func(f render.File) bool { return f.Path == name }) {
			old = append(old, name)
		}
	}
	removals, err := plan.Absent(h, "the file belongs to an earlier configuration", old...)
	return plan.Acts(append(actions, removals...)...), err
}

func (c configuration) concerns(f render.File) bool {
	return slices.ContainsFunc(f.Of, func(s render.Service) bool { return slices.Contains(c.daemons, string(s)) })
}

// marked lists the files with eksnode's mark in folders that other programs use
// too.
func marked(h *host.Host) ([]string, error) {
	candidates := []string{
		render.SystemEnvironment, render.SOCIConfig, render.SOCIOrder, render.ScriptArguments, render.ScriptExtraArguments,
	}
	const units = "/etc/systemd/system"
	entries, err := afero.ReadDir(h.Files, units)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking for drop-ins: %w", err)
	}
	for _, e := range entries {
		if service, ok := strings.CutSuffix(e.Name(), ".service.d"); ok && e.IsDir() {
			candidates = append(candidates, path.Clean(render.ServiceEnvironment(service)))
		}
	}
	var ours []string
	for _, name := range candidates {
		own, err := render.IsOurs(h, name)
		if err != nil {
			return nil, err
		}
		if own {
			ours = append(ours, name)
		}
	}
	return ours, nil
}
