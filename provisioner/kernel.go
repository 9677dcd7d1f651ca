package provisioner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// nodeSysctls are the kernel settings of every node. With protectKernelDefaults the
// kubelet does not start when one of the first three differs. The reserved ports
// are those of the kubelet, kube-proxy and the VPC CNI, in the kernel's form.
func nodeSysctls() map[string]string {
	return map[string]string{
		"kernel.panic":                        "10",
		"kernel.panic_on_oops":                "1",
		"vm.overcommit_memory":                "1",
		"fs.inotify.max_user_instances":       "8192",
		"fs.inotify.max_user_watches":         "524288",
		"net.bridge.bridge-nf-call-ip6tables": "1",
		"net.bridge.bridge-nf-call-iptables":  "1",
		"net.ipv4.ip_forward":                 "1",
		"net.ipv4.ip_local_reserved_ports":    "2703,9808-9809,10249-10250,10256,61678-61679",
	}
}

// allSysctls are every node's settings, overridden by those of options and then by
// the spec's.
func (n *node) allSysctls() map[string]string {
	all := nodeSysctls()
	for _, o := range n.options() {
		maps.Copy(all, o.Sysctls)
	}
	for name, value := range n.spec.Sysctls {
		all[name] = strings.TrimSpace(value)
	}
	return all
}

// sysctlFile sets the parameters at boot. Its name sorts after 99-sysctl.conf, with
// which distributions read /etc/sysctl.conf and to which hardening writes.
func (n *node) sysctlFile() plan.File {
	var text strings.Builder
	text.WriteString("# Kernel settings that the kubelet, kube-proxy and the VPC CNI need.\n")
	all := n.allSysctls()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&text, "%s = %s\n", name, all[name])
	}
	return textFile("/etc/sysctl.d/99-zz-eksnode.conf", text.String(), "kernel settings that the kubelet demands")
}

// sysctls writes the settings for the node's kernel, from its next boot on. It is
// done when the file is right: the running kernel's settings end with the builder
// machine.
func (n *node) sysctls(_ context.Context, h *host.Host) ([]plan.Action, error) {
	actions, err := plan.Files(h, []plan.File{n.sysctlFile()})
	if err != nil {
		return nil, err
	}
	for i, a := range actions {
		actions[i].Do = func(ctx context.Context, p plan.Progress) error {
			if err := n.trySysctls(h); err != nil {
				return err
			}
			return a.Do(ctx, p)
		}
	}
	return actions, nil
}

// trySysctls tries the settings of the network in a separate network namespace, so
// that a value that the kernel refuses is an error now and not at boot. The builder
// machine keeps its own settings: huge pages would use its memory, and other
// settings could break its connections or disable modules until a restart. In a
// container the kernel belongs to the host and refuses most settings.
func (n *node) trySysctls(h *host.Host) error {
	if contained, err := inContainer(h); err != nil || contained || !h.IsLive() {
		return err
	}
	all := n.allSysctls()
	return inOwnNetwork(func() error {
		var errs []error
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if !strings.HasPrefix(name, "net.") {
				continue
			}
			if err := setSysctl(h, name, all[name]); err != nil {
				errs = append(errs, fmt.Errorf("setting %s = %s: %w", name, all[name], err))
			}
		}
		return errors.Join(errs...)
	})
}

// setSysctl ignores a parameter that this kernel does not have yet (bridges without
// br_netfilter) or that is read-only (a locked-down kernel): the node's kernel
// decides.
func setSysctl(h *host.Host, name, value string) error {
	out, err := h.Files.OpenFile(sysctlPath(name), os.O_WRONLY, 0)
	if err == nil {
		_, err = out.WriteString(value)
		err = errors.Join(err, out.Close())
	}
	if errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("the kernel refuses this value: %w", err)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return nil
	}
	return err
}

// sysctlPath is a parameter's file. sysctl.d(5) writes slashes as dots, and a dot
// in a name as a slash.
func sysctlPath(name string) string {
	return "/proc/sys/" + strings.NewReplacer(".", "/", "/", ".").Replace(name)
}

// inContainer says whether the machine shares its kernel with a host, as systemd
// records at boot.
func inContainer(h *host.Host) (bool, error) { return h.Exists("/run/systemd/container") }

// kernel removes every kernel but the spec's, which is then the boot loader's default.
// The step packages has installed and held it.
func (n *node) kernel(ctx context.Context, h *host.Host) ([]plan.Action, error) {
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
	actions := []plan.Action{act(plan.Remove, strings.Join(others, " "), "the image starts with "+kernel,
		func(ctx context.Context) error { return pm.Remove(ctx, h, others) })}
	return append(actions, n.planDefaultKernel(h)...), nil
}

// planDefaultKernel plans to let the boot loader choose the kernel that is left.
func (n *node) planDefaultKernel(h *host.Host) []plan.Action {
	argv := n.distro.Kernel.Default
	if len(argv) == 0 {
		return nil
	}
	why := "the boot loader starts the kernel that is left"
	return []plan.Action{act(plan.Run, strings.Join(argv, " "), why, func(ctx context.Context) error {
		if there, err := h.Exists(n.distro.Kernel.DefaultFor); err != nil || !there || !h.HasCommand(argv[0]) {
			return err // another program makes the image bootable
		}
		return run(ctx, h, argv)
	})}
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
	return surface.Errorf("%s writes %s, and for that has to read the disks of a running machine, "+
		"so {kernel} cannot be changed in an offline root; provision a booted machine",
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
