package provisioner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// system carries out what the distribution's network stack, security module,
// time keeper and quirks ask for, and the options of the spec. It asks the distribution's value and never
// its name.
func (n *node) system() step {
	return step{"system", func(ctx context.Context, h *host.Host) ([]plan.Action, error) {
		actions, err := n.planRemoved(ctx, h)
		if err != nil {
			return nil, err
		}
		files, err := plan.Files(h, n.systemFiles())
		if err != nil {
			return nil, err
		}
		actions = append(actions, files...)
		for _, s := range n.distro.Settings() {
			masks, err := planMasks(h, s.Masked)
			if err != nil {
				return nil, err
			}
			enabled, err := planEnabled(h, s.Enabled)
			if err != nil {
				return nil, err
			}
			actions = append(append(actions, masks...), enabled...)
		}
		for _, o := range n.spec.options() {
			lines, err := planLines(h, o.lines)
			if err != nil {
				return nil, err
			}
			links, err := plan.Links(h, o.links)
			if err != nil {
				return nil, err
			}
			actions = append(append(actions, lines...), links...)
		}
		return actions, nil
	}}
}

// systemFiles are the files of the distribution's settings and of the options.
func (n *node) systemFiles() []plan.File {
	var files []plan.File
	for _, o := range n.spec.options() {
		files = append(files, o.files...)
	}
	for _, s := range n.distro.Settings() {
		for _, f := range s.Files {
			files = append(files, plan.File{Path: f.Path, Content: []byte(f.Content), Mode: 0o644, Why: f.Why})
		}
	}
	return files
}

// planRemoved plans the removal of packages that are in a node's way.
func (n *node) planRemoved(ctx context.Context, h *host.Host) ([]plan.Action, error) {
	why := map[string]string{}
	var names []string
	for _, s := range n.distro.Settings() {
		for _, r := range s.Removed {
			names = append(names, r.Package)
			why[r.Package] = r.Why
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	pm := n.distro.PackageManager
	have, err := pm.Installed(ctx, h, names)
	switch {
	case errors.Is(err, host.ErrMountedRoot): // nothing tells; say what a run would ask
		have = map[string]string{}
		for _, name := range names {
			have[name] = "unknown"
		}
	case err != nil:
		return nil, err
	}
	var actions []plan.Action
	for _, name := range names {
		if have[name] != "" {
			actions = append(actions, plan.Action{Verb: plan.Remove, Target: "package " + name, Reason: why[name],
				Do: func(ctx context.Context, _ plan.Progress) error { return pm.Remove(ctx, h, []string{name}) }})
		}
	}
	return actions, nil
}

const nothing = "/dev/null"

// planMasks plans the links to /dev/null that are missing. What is at such a
// path is replaced: a link there, or a copy of the unit that is to be masked.
func planMasks(h *host.Host, masks []distros.Masked) ([]plan.Action, error) {
	var links []plan.SymbolicLink
	for _, m := range masks {
		links = append(links, plan.SymbolicLink{Path: m.Path, To: nothing, Why: m.Why})
	}
	return plan.Links(h, links)
}

// planEnabled plans that units start at boot which the image has.
func planEnabled(h *host.Host, units []string) ([]plan.Action, error) {
	var actions []plan.Action
	for _, unit := range units {
		has, err := h.HasUnit(unit)
		if err != nil {
			return nil, err
		}
		if !has {
			continue
		}
		links, err := h.Enablements(unit)
		if err != nil {
			return nil, err
		}
		if len(links) == 0 {
			actions = append(actions, plan.Action{Verb: plan.Enable, Target: unit, Reason: "a node whose clock is wrong is not let into the cluster",
				Do: func(ctx context.Context, _ plan.Progress) error {
					_, err := h.Run(ctx, host.Command{Argv: []string{"systemctl", "enable", "--no-reload", unit}})
					return err
				}})
		}
	}
	return actions, nil
}

// seLinuxPolicy is there when the kernel enforces or records by a policy.
const seLinuxPolicy = "/sys/fs/selinux/policy"

// labels gives what was written the contexts of the machine's policy: a file
// gets its folder's by itself, and the policy may want another. Where no policy
// is loaded there is nothing to go by.
func (n *node) labels() step {
	return step{"labels", func(ctx context.Context, h *host.Host) ([]plan.Action, error) {
		check := n.distro.Security.CheckLabels
		loaded, err := h.Exists(seLinuxPolicy)
		if err != nil || !loaded || len(check) == 0 || !h.IsLive() {
			return nil, err
		}
		paths, err := n.written(h)
		if err != nil || len(paths) == 0 {
			return nil, err
		}
		out, err := h.Run(ctx, host.Command{Argv: append(slices.Clone(check), paths...)})
		if err != nil {
			return nil, fmt.Errorf("comparing files with the security policy: %w", err)
		}
		if strings.TrimSpace(string(out)) == "" {
			return nil, nil
		}
		relabel := append(slices.Clone(n.distro.Security.Relabel), paths...)
		return []plan.Action{{
			Verb: plan.Run, Target: strings.Join(n.distro.Security.Relabel, " "), Reason: "the security policy wants other contexts for " + relabeled(string(out)),
			Do: func(ctx context.Context, _ plan.Progress) error {
				_, err := h.Run(ctx, host.Command{Argv: relabel})
				return err
			},
		}}, nil
	}}
}

// relabeled counts the files that restorecon(8) names, one a line.
func relabeled(said string) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	words := strings.Fields(lines[0])
	first := lines[0]
	if i := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "/") }); i >= 0 {
		first = words[i]
	}
	if len(lines) == 1 {
		return first
	}
	return fmt.Sprintf("%s and %d more", first, len(lines)-1)
}

// written are the paths that provisioning writes and that are there.
func (n *node) written(h *host.Host) ([]string, error) {
	paths := []string{n.commandPath()}
	for _, f := range folders() {
		paths = append(paths, f.path)
	}
	for _, f := range n.writtenFiles() {
		paths = append(paths, f.Path)
	}
	if n.spec.joins() {
		for _, f := range n.bootFiles() {
			paths = append(paths, f.Path)
		}
	}
	for _, d := range n.downloads {
		paths = append(paths, d.Target)
	}
	slices.Sort(paths)
	var there []string
	for _, name := range slices.Compact(paths) {
		exists, err := h.Exists(name)
		if err != nil {
			return nil, err
		}
		if exists {
			there = append(there, name)
		}
	}
	return there, nil
}
