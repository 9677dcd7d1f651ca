package provisioner

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

var lineForm = regexp.MustCompile(`^(open-)?([1-9][0-9]{2})$`)

// driverLine is the number of the spec's line, and whether its modules are open.
func (s Spec) driverLine() (line string, open bool) {
	line, open = strings.CutPrefix(s.NVIDIA, "open-")
	return line, open
}

// validateDrivers refuses what is no line, and drivers without a kernel.
func (s Spec) validateDrivers(p *problems) {
	if s.NVIDIA != "" && !lineForm.MatchString(s.NVIDIA) {
		p.add("{nvidia}: %q is no line of NVIDIA's driver; "+
			"write open-580 for the open modules, 580 for the proprietary ones", s.NVIDIA)
	}
	for _, f := range []struct {
		field surface.Name
		set   bool
	}{{"nvidia", s.NVIDIA != ""}, {"neuron", s.Neuron}} {
		if f.set && s.Kernel == "" {
			p.add("%s needs {kernel}: the driver is made for one kernel", f.field)
		}
	}
}

// checkDriver refuses a line that the distribution does not have in the wanted form.
func (s Spec) checkDriver(d distros.Distro) error {
	_, open := s.driverLine()
	switch {
	case s.NVIDIA == "", !d.Can(distros.NVIDIA), open && len(d.NVIDIA.Open) > 0, len(d.NVIDIA.Closed) > 0:
		return nil
	case len(d.NVIDIA.Open) > 0:
		return surface.Errorf("{nvidia}: %s has no proprietary modules; write %q", d.Name, "open-"+s.NVIDIA)
	}
	return surface.Errorf("{nvidia}: eksnode knows no packages of the driver for %s; "+
		"use {packages} and {nvidia_container_toolkit}", d.Name)
}

// named fills the spec's kernel in the names of packages.
func (n *node) named(packages []string) []string {
	return n.distro.PackageManager.Kernels().Named(packages, n.spec.Kernel)
}

func (n *node) driverPackages() []string {
	if n.spec.NVIDIA == "" {
		return nil
	}
	line, open := n.spec.driverLine()
	return n.distro.NVIDIA.Packages(open, line, n.spec.Kernel, n.distro.PackageManager)
}

// keepLine makes the package manager keep to the spec's line before it installs the driver.
// An unknown line is an error with those of the machine's repositories.
func (n *node) keepLine(ctx context.Context, h *host.Host, names []string) error {
	if own := n.driverPackages(); len(own) == 0 || !slices.Contains(names, own[0]) {
		return nil
	}
	line, open := n.spec.driverLine()
	driver, pm := n.distro.NVIDIA, n.distro.PackageManager
	lines, err := driver.Lines(ctx, h, open, n.spec.Kernel, pm)
	if err == nil && !slices.Contains(lines, line) {
		err = surface.Errorf("{nvidia}: this machine's repositories have no driver of the line %q for {kernel} %q; "+
			"they have %s", n.spec.NVIDIA, n.spec.Kernel, cmp.Or(strings.Join(lines, ", "), "none"))
	}
	if err != nil {
		return err
	}
	return driver.Keep(ctx, h, open, line, pm)
}

// drivers builds the modules of the options that a kernel of the image lacks.
func (n *node) drivers(ctx context.Context, h *host.Host) ([]plan.Action, error) {
	h = h.With(n.spec.buildProxy()...)
	var g gathered
	for _, o := range n.options() {
		lacking, err := kernelsWithout(h, o.Module)
		if err != nil {
			return nil, err
		}
		if len(lacking) > 0 {
			g.add(n.planModule(ctx, h, o, lacking))
		}
	}
	g.add(plan.Absent(h, "DKMS made this private key, which instances would share", dkmsKey))
	return g.all()
}

// planModule plans to install the packages of a module, and to build it for kernels.
func (n *node) planModule(ctx context.Context, h *host.Host, o option, kernels []string) ([]plan.Action, error) {
	pm, packages := n.distro.PackageManager, n.named(n.distro.OptionPackages[o.ModuleOf])
	lacks := fmt.Sprintf("the kernel %s has no module %s", strings.Join(kernels, " "), o.Module)
	var actions, after []plan.Action
	have, err := pm.Installed(ctx, h, packages)
	if err != nil && !errors.Is(err, host.ErrMountedRoot) { // the plan contains what a live run would look for
		return nil, err
	}
	missing := slices.DeleteFunc(slices.Clone(packages), func(p string) bool { return have[p] != "" })
	if len(missing) > 0 {
		if n.spec.Kernel == "" {
			return nil, surface.Errorf("%s: %s; set {kernel} to one that has it, or for which the package %s is built",
				surface.Name(o.ID), lacks, packages[0])
		}
		if actions, after, err = n.planRepositories(h, true); err != nil {
			return nil, err
		}
		actions = append(actions, plan.Action{Verb: plan.Install, Target: strings.Join(missing, " "),
			Packages: missing, Reason: lacks, Do: func(ctx context.Context, _ plan.Progress) error {
				if err := pm.Refresh(ctx, h); err != nil {
					return err
				}
				return errors.Join(pm.Install(ctx, h, missing), pm.Clean(ctx, h))
			}})
	}
	for _, kernel := range kernels {
		argv, name := []string{"dkms", "autoinstall", "-k", kernel}, surface.Name(o.ID)
		actions = append(actions, act(plan.Run, strings.Join(argv, " "), lacks, func(ctx context.Context) error {
			if !h.HasCommand("dkms") {
				return surface.Errorf("%s: %s, and no package builds it; choose another {kernel}", name, lacks)
			}
			out, err := h.Run(ctx, host.Command{Argv: argv})
			if err != nil {
				return surface.Errorf("%s: building the module %s: %w", name, o.Module, err)
			}
			left, err := kernelsWithout(h, o.Module)
			if err == nil {
				err = h.Files.RemoveAll(dkmsKey)
			}
			if slices.Contains(left, kernel) {
				err = surface.Errorf("%s: dkms built no module %s for the kernel %s: %s", name, o.Module, kernel,
					bytes.TrimSpace(out))
			}
			return err
		}))
	}
	return append(actions, after...), nil
}

// dkmsKey is the private key with which DKMS signs modules. It makes another for the next
// module.
const dkmsKey = "/var/lib/dkms/mok.key"

const modulesFolder = "/lib/modules"

// kernelsWithout returns the installed kernels that have no such module. Of a removed
// kernel, files of depmod may be left, but not those of its package.
func kernelsWithout(h *host.Host, module string) ([]string, error) {
	if module == "" {
		return nil, nil
	}
	kernels, err := entries(h, modulesFolder)
	if err != nil {
		return nil, err
	}
	file := regexp.MustCompile(`(?m)^([^:\n]*/)?` + module + `\.ko(\.\w+)?(:|$)`)
	var lacking []string
	for _, k := range kernels {
		there, err := h.Exists(path.Join(modulesFolder, k.Name(), "modules.order"))
		if err != nil {
			return nil, err
		}
		has := !there
		for _, list := range []string{"modules.dep", "modules.builtin"} {
			text, err := h.Content(path.Join(modulesFolder, k.Name(), list))
			if err != nil {
				return nil, err
			}
			has = has || file.Match(text)
		}
		if !has {
			lacking = append(lacking, k.Name())
		}
	}
	return lacking, nil
}
