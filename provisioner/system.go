package provisioner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// system applies the settings of the distribution's network stack, security module,
// time keeper and quirks, and the options of the spec. It uses the distribution's
// data and never its name.
func (n *node) system(ctx context.Context, h *host.Host) ([]plan.Action, error) {
	var g gathered
	g.add(n.planRemoved(ctx, h))
	g.add(plan.Files(h, slices.Concat(n.systemFiles(), n.defaultsFiles())))
	g.add(n.oldDefaults(h))
	for _, s := range n.distro.Settings() {
		g.add(planMasks(h, s.Masked))
		g.add(planEnabled(h, s.Enabled, "a cluster refuses a node with a wrong clock"))
	}
	for _, o := range n.options() {
		g.add(planLines(h, o.Lines))
		g.add(plan.Links(h, o.Links))
		g.add(n.planOptionUnits(ctx, h, o))
	}
	changesUnits := func(a plan.Action) bool { return strings.HasPrefix(a.Target, "/etc/systemd/system/") }
	if slices.ContainsFunc(g.actions, changesUnits) {
		g.add(needsReload(ctx, h, true, nil))
	}
	return g.all()
}

// systemFiles are the files of the options, and of the distribution's settings.
func (n *node) systemFiles() []plan.File {
	var files []plan.File
	for _, o := range n.options() {
		for _, f := range o.Files {
			files = append(files, f.file(strings.NewReplacer()))
		}
	}
	for _, s := range n.distro.Settings() {
		for _, f := range s.Files {
			if slices.ContainsFunc(files, func(o plan.File) bool { return o.Path == f.Path }) {
				continue // ntp_servers replaces Amazon's
			}
			files = append(files, textFile(f.Path, f.Content, f.Why))
		}
	}
	return files
}

// planRemoved plans the removal of packages that prevent a node from working.
func (n *node) planRemoved(ctx context.Context, h *host.Host) ([]plan.Action, error) {
	var unwanted []distros.Removed
	for _, s := range n.distro.Settings() {
		unwanted = append(unwanted, s.Removed...)
	}
	if len(unwanted) == 0 {
		return nil, nil
	}
	pm := n.distro.PackageManager
	names := show.Each(unwanted, func(r distros.Removed) string { return r.Package })
	have, err := pm.Installed(ctx, h, names)
	unknown := errors.Is(err, host.ErrMountedRoot) // the plan contains what a live run would check
	if err != nil && !unknown {
		return nil, err
	}
	var actions []plan.Action
	for i, name := range names {
		if unknown || have[name] != "" {
			actions = append(actions, act(plan.Remove, "package "+name, unwanted[i].Why,
				func(ctx context.Context) error { return pm.Remove(ctx, h, []string{name}) }))
		}
	}
	return actions, nil
}

const nothing = "/dev/null"

// planMasks plans the missing links to /dev/null. A link, or a copy of the unit, at
// such a path is replaced.
func planMasks(h *host.Host, masks []distros.Masked) ([]plan.Action, error) {
	return plan.Links(h, show.Each(masks, func(m distros.Masked) plan.SymbolicLink {
		return plan.SymbolicLink{Path: m.Path, To: nothing, Why: m.Why}
	}))
}

// planEnabled plans to enable units that the image has.
func planEnabled(h *host.Host, units []string, why string) ([]plan.Action, error) {
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
			enable := plan.Command(h, why, "systemctl", "enable", "--no-reload", unit)
			enable.Verb, enable.Target = plan.Enable, unit
			actions = append(actions, enable)
		}
	}
	return actions, nil
}

// seLinuxPolicy exists when the kernel enforces or logs a policy.
const seLinuxPolicy = "/sys/fs/selinux/policy"

// labels gives the written files the contexts of the machine's policy: a new file
// has its folder's context, but the policy may demand another. It does nothing
// without a loaded policy, and in an offline root, where the policy is another machine's.
func (n *node) labels(ctx context.Context, h *host.Host) ([]plan.Action, error) {
	check := n.distro.Security.CheckLabels
	loaded, err := h.Exists(seLinuxPolicy)
	if err != nil || !loaded || len(check) == 0 || !h.HasSystemd() {
		return nil, err
	}
	paths, err := n.written(h)
	if err != nil || len(paths) == 0 {
		return nil, err
	}
	out, err := h.Run(ctx, host.Command{Argv: append(slices.Clone(check), paths...)})
	if err != nil {
		return nil, fmt.Errorf("comparing files with the SELinux policy: %w", err)
	}
	if strings.TrimSpace(string(out)) == "" {
		return nil, nil
	}
	relabel := plan.Command(h, "the SELinux policy demands other contexts for "+relabeled(string(out)),
		append(slices.Clone(n.distro.Security.Relabel), paths...)...)
	relabel.Target = strings.Join(n.distro.Security.Relabel, " ")
	return []plan.Action{relabel}, nil
}

// relabeled summarizes the files that restorecon(8) prints, one a line.
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

// written are the existing paths that provisioning writes.
func (n *node) written(h *host.Host) ([]string, error) {
	paths := []string{n.commandPath()}
	folders := n.stepFiles("directories")
	if n.spec.joins() {
		folders = append(folders, n.stepFiles("first-boot")...)
	}
	for _, f := range append(folders, n.writtenFiles()...) {
		paths = append(paths, f.Path)
	}
	boot, err := n.bootRecords(h)
	for _, f := range boot {
		paths = append(paths, f.Path)
	}
	for _, d := range n.downloads {
		paths = append(paths, d.Target)
	}
	slices.Sort(paths)
	errs := []error{err}
	there := slices.DeleteFunc(slices.Compact(paths), func(name string) bool {
		exists, err := h.Exists(name)
		errs = append(errs, err)
		return !exists
	})
	return there, errors.Join(errs...)
}
