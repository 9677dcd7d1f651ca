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
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// packages installs the packages of the distribution's roles, of options and of the
// spec. It is done when each is installed (those with a version in the spec in that
// version and held) and no package is half installed.
func (n *node) packages(ctx context.Context, h *host.Host) ([]plan.Action, error) {
	h = h.With(n.spec.buildProxy()...)
	pm := n.distro.PackageManager
	var g gathered
	g.add(interrupted(h, n.distro.PackageManager.Leftover))
	g.add(n.unfinished(h))
	have, err := n.installed(ctx, h)
	g.add(nil, err)
	if g.err != nil {
		return g.all()
	}
	holds, err := n.planHolds(h)
	if err != nil {
		return nil, err
	}
	missing := n.missing(have)
	before, after, err := n.planRepositories(h, len(missing) > 0)
	if err != nil {
		return nil, err
	}
	g.add(before, nil)
	if len(missing) == 0 {
		return append(g.actions, holds...), nil
	}
	g.add(n.keepOverlay(h))
	for _, argv := range n.distro.Repositories {
		g.actions = append(g.actions, plan.Command(h, "a repository with the packages", argv...))
	}
	install := act(plan.Install, strings.Join(n.exactly(missing), " "), n.packageReason(missing),
		func(ctx context.Context) error { return n.install(ctx, h, missing) })
	install.Packages = missing
	g.add([]plan.Action{
		act(plan.Run, pm.Refreshing(), "update the lists of the repositories",
			func(ctx context.Context) error { return pm.Refresh(ctx, h) }),
		install,
		act(plan.Empty, pm.Name()+"'s downloads", "the image needs no package files",
			func(ctx context.Context) error { return pm.Clean(ctx, h) }),
	}, nil)
	g.add(slices.Concat(holds, after), nil)
	return g.all()
}

// keepOverlay plans to load overlay, which unpacking images needs, while loading
// still works: a package manager that upgrades the kernel, such as pacman, removes
// the running kernel's modules. A machine that cannot load overlay may have it
// anyway; otherwise containerd reports the error.
func (n *node) keepOverlay(h *host.Host) ([]plan.Action, error) {
	known, err := h.Content("/proc/filesystems")
	if err != nil || len(n.containers) == 0 || h.Offline() || bytes.Contains(known, []byte("\toverlay\n")) {
		return nil, err
	}
	why := "unpacking images needs overlay, and an upgrade may remove the running kernel's modules"
	return []plan.Action{act(plan.Run, "modprobe overlay", why, func(ctx context.Context) error {
		_ = run(ctx, h, []string{"modprobe", "overlay"})
		return ctx.Err()
	})}, nil
}

// missing lists the packages to install: absent ones, and those in another version
// than the wanted one.
func (n *node) missing(have map[string]string) []string {
	list := slices.DeleteFunc(n.packageNames(), func(name string) bool {
		want := n.spec.PackageVersions[name]
		return have[name] != "" && (want == "" || want == have[name])
	})
	headers := n.named([]string{n.distro.PackageManager.Kernels().Headers})[0]
	if kernel := n.spec.Kernel; slices.Contains(list, headers) && !slices.Contains(list, kernel) {
		list = append(list, kernel) // headers are those of the newest kernel
	}
	return list
}

func (n *node) planHolds(h *host.Host) ([]plan.Action, error) {
	names := n.heldNames()
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
	return []plan.Action{act(plan.Write, pm.Name()+"'s hold of "+strings.Join(free, " "),
		"the spec chooses them, and no update may change them",
		func(ctx context.Context) error { return pm.Hold(ctx, h, free) })}, nil
}

// heldNames are the packages with a version in the spec, the kernel, and the driver of GPUs.
func (n *node) heldNames() []string {
	names := slices.Sorted(maps.Keys(n.spec.PackageVersions))
	more := n.driverPackages()
	if n.spec.Kernel != "" {
		more = append(more, n.spec.Kernel)
	}
	return append(names, slices.DeleteFunc(more, func(name string) bool { return slices.Contains(names, name) })...)
}

// unfinished plans to complete the packages that a killed installation left half
// installed, also those that no step needs: an image would keep them.
func (n *node) unfinished(h *host.Host) ([]plan.Action, error) {
	pm := n.distro.PackageManager
	names, err := pm.Unfinished(h)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	return []plan.Action{act(plan.Install, strings.Join(names, " "),
		"an interrupted run left this package half installed",
		func(ctx context.Context) error { return pm.Finish(ctx, h) })}, nil
}

// install also checks that each name is now a package: a package manager may accept
// a name for something else, such as a group.
func (n *node) install(ctx context.Context, h *host.Host, names []string) error {
	pm := n.distro.PackageManager
	if err := n.checkKernel(ctx, h, names); err != nil {
		return err
	}
	if err := n.keepLine(ctx, h, names); err != nil {
		return err
	}
	if err := pm.Install(ctx, h, n.exactly(names)); err != nil {
		return err
	}
	have, err := pm.Installed(ctx, h, names)
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return have[name] != "" })
	if len(left) > 0 {
		return fmt.Errorf("%s reports success, but no package is named %s; use the names of packages", pm.Name(),
			strings.Join(left, ", "))
	}
	for _, name := range names {
		if want := n.spec.PackageVersions[name]; want != "" && have[name] != want {
			return surface.Errorf("%s reports success, but %s is installed in version %s, not %s; "+
				"write {package_versions} in the package manager's form", pm.Name(), name, have[name], want)
		}
	}
	return nil
}

// exactly adds the wanted versions in the package manager's form. supportedBy has
// refused packages that cannot have one.
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

// packageNames lists the packages to install, each once.
func (n *node) packageNames() []string {
	names := n.distro.AllPackages()
	for _, name := range slices.Concat(n.optionPackages(), n.spec.Packages, n.heldNames()) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// packageReason names the purposes of the packages.
func (n *node) packageReason(names []string) string {
	var reasons []string
	add := func(reason string, packages ...string) {
		if slices.ContainsFunc(packages, func(p string) bool { return slices.Contains(names, p) }) {
			reasons = append(reasons, reason)
		}
	}
	for _, role := range distros.Roles {
		add(string(role), n.distro.Packages[role]...)
	}
	for _, o := range n.options() {
		add(o.Why, slices.Concat(n.distro.OptionPackages[o.Needs], o.Packages)...)
	}
	add("listed in packages", slices.Concat(n.spec.Packages, n.heldNames())...)
	return strings.Join(reasons, ", ")
}

// installed returns the versions of the installed packages. On an image root whose
// database needs a program of the image, the manifest replaces the database.
// Without a manifest the result is empty.
func (n *node) installed(ctx context.Context, h *host.Host) (map[string]string, error) {
	have, err := n.distro.PackageManager.Installed(ctx, h, n.packageNames())
	if !errors.Is(err, host.ErrMountedRoot) {
		return have, err
	}
	m, err := manifest.Load(h)
	have = map[string]string{}
	if m != nil {
		for _, p := range m.Packages {
			have[p.Name] = p.Version
		}
	}
	return have, err
}
