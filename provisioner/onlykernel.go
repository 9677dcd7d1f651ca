package provisioner

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// kernel removes every kernel but the spec's, which is then the boot loader's default.
// The step packages has installed and held it.
func (n *node) kernel() step {
	return step{"kernel", func(ctx context.Context, h *host.Host) ([]plan.Action, error) {
		kernel, pm := n.spec.Kernel, n.distro.PackageManager
		have, err := pm.Installed(ctx, h, []string{kernel})
		var others []string
		if err == nil && have[kernel] != "" {
			others, err = pm.Kernels().Others(ctx, h, kernel)
		}
		switch {
		case errors.Is(err, host.ErrMountedRoot), err == nil && have[kernel] == "":
			others = []string{"every kernel but " + kernel} // the plan contains what a live run would look for
		case err != nil || len(others) == 0:
			return nil, err
		}
		if err := n.checkBootLoader(h); err != nil {
			return nil, err
		}
		actions := []plan.Action{{Verb: plan.Remove, Target: strings.Join(others, " "),
			Reason: "the image starts with " + kernel,
			Do:     func(ctx context.Context, _ plan.Progress) error { return pm.Remove(ctx, h, others) }}}
		return append(actions, n.planDefaultKernel(h)...), nil
	}}
}

// planDefaultKernel plans to let the boot loader choose the kernel that is left.
func (n *node) planDefaultKernel(h *host.Host) []plan.Action {
	argv := n.distro.Kernel.Default
	if len(argv) == 0 {
		return nil
	}
	return []plan.Action{{Verb: plan.Run, Target: strings.Join(argv, " "),
		Reason: "the boot loader starts the kernel that is left",
		Do: func(ctx context.Context, _ plan.Progress) error {
			if there, err := h.Exists(n.distro.Kernel.DefaultFor); err != nil || !there || !h.HasCommand(argv[0]) {
				return err // another program makes the image bootable
			}
			_, err := h.Run(ctx, host.Command{Argv: argv})
			return err
		}}}
}

// checkBootLoader refuses an offline root whose boot loader must read the disks of a
// running machine: packages of kernels call it.
func (n *node) checkBootLoader(h *host.Host) error {
	config := n.distro.Kernel.TakenFile
	if config == "" || !h.IsLive() || !h.Offline() {
		return nil
	}
	there, err := h.Exists(config)
	if err != nil || !there {
		return err
	}
	return surface.Errorf("%s writes %s, and for that has to read the disks of a running machine, so {kernel} cannot be changed in an offline root; provision a booted machine",
		n.distro.Kernel.Default[0], config)
}

// checkKernel returns an error with the kernels of the machine's repositories when none
// is the spec's.
func (n *node) checkKernel(ctx context.Context, h *host.Host, names []string) error {
	if n.spec.Kernel == "" || !slices.Contains(names, n.spec.Kernel) {
		return nil
	}
	if err := n.checkBootLoader(h); err != nil {
		return err
	}
	kernels := n.distro.PackageManager.Kernels()
	offered, err := kernels.Choices(ctx, h)
	if err != nil || slices.Contains(offered, n.spec.Kernel) {
		return err
	}
	return surface.Errorf("{kernel}: %q is no kernel of this machine's repositories; they have %s", n.spec.Kernel,
		cmp.Or(strings.Join(offered, ", "), "none"))
}
