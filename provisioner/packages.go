package provisioner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// packages installs the packages of the distribution's roles, of options and of
// the spec. Done means that each is installed, in whatever version but for those
// that the spec gives one, that these are held, and that no package is half done.
func (n *node) packages() step {
	return step{"packages", func(ctx context.Context, h *host.Host) ([]plan.Action, error) {
		pm := n.distro.PackageManager
		actions, err := n.packageLeftovers(h)
		if err != nil {
			return nil, err
		}
		unfinished, err := n.unfinished(h)
		if err != nil {
			return nil, err
		}
		actions = append(actions, unfinished...)
		have, err := n.installed(ctx, h)
		if err != nil {
			return nil, err
		}
		holds, err := n.planHolds(h)
		if err != nil {
			return nil, err
		}
		missing := n.missing(have)
		if len(missing) == 0 {
			return append(actions, holds...), nil
		}
		overlay, err := n.keepOverlay(h)
		if err != nil {
			return nil, err
		}
		actions = append(actions, overlay...)
		for _, argv := range n.distro.Repositories {
			actions = append(actions, plan.Action{
				Verb: plan.Run, Target: strings.Join(argv, " "), Reason: "a repository that the packages are in",
				Do: func(ctx context.Context, _ plan.Progress) error {
					_, err := h.Run(ctx, host.Command{Argv: argv})
					return err
				},
			})
		}
		return append(append(actions,
			plan.Action{
				Verb: plan.Run, Target: pm.Refreshing(), Reason: "learn what the repositories have now",
				Do: func(ctx context.Context, _ plan.Progress) error { return pm.Refresh(ctx, h) },
			},
			plan.Action{
				Verb: plan.Install, Target: strings.Join(n.exactly(missing), " "), Reason: n.packageReason(missing), Packages: missing,
				Do: func(ctx context.Context, _ plan.Progress) error { return n.install(ctx, h, missing) },
			},
			plan.Action{
				Verb: plan.Empty, Target: pm.Name() + "'s downloads", Reason: "installed packages need not be kept as files",
				Do: func(ctx context.Context, _ plan.Progress) error { return pm.Clean(ctx, h) },
			}), holds...), nil
	}}
}

// keepOverlay plans to load what images are unpacked with while it can be: a
// package manager that upgrades the kernel, as pacman does, takes the running
// one's modules away. A machine that cannot load it may have it all the same;
// otherwise containerd says so.
func (n *node) keepOverlay(h *host.Host) ([]plan.Action, error) {
	known, err := h.Content("/proc/filesystems")
	if err != nil || len(n.containers) == 0 || bytes.Contains(known, []byte("\toverlay\n")) {
		return nil, err
	}
	return []plan.Action{{Verb: plan.Run, Target: "modprobe overlay", Reason: "images are unpacked with it, and an upgrade may take the running kernel's modules away",
		Do: func(ctx context.Context, _ plan.Progress) error {
			_, _ = h.Run(ctx, host.Command{Argv: []string{"modprobe", "overlay"}})
			return ctx.Err()
		}}}, nil
}

// missing lists what must be installed: what is not there, or not in the
// version that is asked for.
func (n *node) missing(have map[string]string) []string {
	return slices.DeleteFunc(n.packageNames(), func(name string) bool {
		want := n.spec.PackageVersions[name]
		return have[name] != "" && (want == "" || want == have[name])
	})
}

// planHolds plans to hold the packages whose versions the spec gives.
func (n *node) planHolds(h *host.Host) ([]plan.Action, error) {
	names := slices.Sorted(maps.Keys(n.spec.PackageVersions))
	if len(names) == 0 {
		return nil, nil
	}
	pm := n.distro.PackageManager
	held, err := pm.Held(h, names)
	if err != nil {
		return nil, err
	}
	free := slices.DeleteFunc(names, func(name string) bool { return slices.Contains(held, name) })
	if len(free) == 0 {
		return nil, nil
	}
	return []plan.Action{{Verb: plan.Write, Target: pm.Name() + "'s hold of " + strings.Join(free, " "), Reason: "package_versions gives their versions, and no update shall change them",
		Do: func(ctx context.Context, _ plan.Progress) error { return pm.Hold(ctx, h, free) }}}, nil
}

// packageLeftovers plans the removal of what a killed installation left.
func (n *node) packageLeftovers(h *host.Host) ([]plan.Action, error) {
	names, err := n.distro.PackageManager.Leftover(h)
	if err != nil {
		return nil, err
	}
	return plan.Absent(h, plan.Interrupted, names...)
}

// unfinished plans to complete the packages that a killed installation left half
// done, also those that nobody asked for: an image would keep them so.
func (n *node) unfinished(h *host.Host) ([]plan.Action, error) {
	pm := n.distro.PackageManager
	names, err := pm.Unfinished(h)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	return []plan.Action{{Verb: plan.Install, Target: strings.Join(names, " "), Reason: "an interrupted run left it half done",
		Do: func(ctx context.Context, _ plan.Progress) error { return pm.Finish(ctx, h) }}}, nil
}

// install checks afterwards that each name has become a package: a tool may
// take a name for something else, such as a group.
func (n *node) install(ctx context.Context, h *host.Host, names []string) error {
	pm := n.distro.PackageManager
	if err := pm.Install(ctx, h, n.exactly(names)); err != nil {
		return err
	}
	have, err := pm.Installed(ctx, h, names)
	if err != nil {
		return err
	}
	if left := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return have[name] != "" }); len(left) > 0 {
		return fmt.Errorf("%s reports success, but there is no package of the name %s; use the packages' own names", pm.Name(), strings.Join(left, ", "))
	}
	for _, name := range names {
		if want := n.spec.PackageVersions[name]; want != "" && have[name] != want {
			return surface.Errorf("%s reports success, but %s is installed in version %s and not %s; write %s as the package manager writes versions", pm.Name(), name, have[name], want, fieldPackageVersions)
		}
	}
	return nil
}

// exactly gives packages the versions that are asked for, in the package
// manager's way. Which cannot have any has been refused; see supportedBy.
func (n *node) exactly(names []string) []string {
	var exact []string
	for _, name := range names {
		if version := n.spec.PackageVersions[name]; version != "" {
			if pinned, err := n.distro.PackageManager.Pinned(name, version); err == nil {
				name = pinned
			}
		}
		exact = append(exact, name)
	}
	return exact
}

// packageNames lists what must be installed, each once.
func (n *node) packageNames() []string {
	names := n.distro.AllPackages()
	for _, name := range slices.Concat(n.optionPackages(), n.spec.Packages, slices.Sorted(maps.Keys(n.spec.PackageVersions))) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// packageReason says what the packages are for.
func (n *node) packageReason(names []string) string {
	var reasons []string
	for _, role := range distros.Roles {
		if slices.ContainsFunc(n.distro.Packages[role], func(p string) bool { return slices.Contains(names, p) }) {
			reasons = append(reasons, string(role))
		}
	}
	for _, o := range n.spec.options() {
		if slices.ContainsFunc(n.distro.OptionPackages[o.needs], func(p string) bool { return slices.Contains(names, p) }) {
			reasons = append(reasons, o.why)
		}
	}
	asked := slices.AppendSeq(slices.Clone(n.spec.Packages), maps.Keys(n.spec.PackageVersions))
	if slices.ContainsFunc(asked, func(p string) bool { return slices.Contains(names, p) }) {
		reasons = append(reasons, "asked for in packages")
	}
	return strings.Join(reasons, ", ")
}

// installed tells the versions of the packages. Where a mounted root's
// database cannot be read without running the tool, what the image's manifest
// recorded is taken for it; on a root without a manifest nothing is.
func (n *node) installed(ctx context.Context, h *host.Host) (map[string]string, error) {
	have, err := n.distro.PackageManager.Installed(ctx, h, n.packageNames())
	if !errors.Is(err, host.ErrMountedRoot) {
		return have, err
	}
	m, err := manifest.Load(h)
	if err != nil || m == nil {
		return map[string]string{}, err
	}
	recorded := map[string]string{}
	for _, p := range m.Packages {
		recorded[p.Name] = p.Version
	}
	return recorded, nil
}
