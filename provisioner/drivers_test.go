package provisioner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/e2e/livetest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

// nvidiaRepository has two lines of a driver, as NVIDIA's repository for Debian does, with
// modules for the kernel that are built already.
func nvidiaRepository() []deb {
	const modules, kernel = "lib/modules/6.1.0-9-cloud-amd64/", "linux-image-cloud-amd64"
	list := []deb{
		{kernel, "6.1", map[string]string{modules + "modules.order": ""}}, {kernel, "6.0", nil},
		{"linux-headers-cloud-amd64", "6.1", nil}, {"nvidia-container-toolkit", "1", nil},
		{"nvidia-driver-pinning-580", "580", map[string]string{
			"etc/apt/preferences.d/nvidia": "Package: nvidia-*\nPin: version 580.*\nPin-Priority: 1000\n"}},
	}
	for _, line := range []string{"580", "595"} {
		for _, name := range []string{"nvidia-kernel-open-dkms", "nvidia-driver-cuda", "nvidia-persistenced"} {
			d := deb{name, line + ".1.2-1", map[string]string{}}
			switch name {
			case "nvidia-kernel-open-dkms":
				d.files[modules+"modules.dep"] = "updates/dkms/nvidia.ko.zst:\n"
			case "nvidia-persistenced":
				d.files["usr/lib/systemd/system/nvidia-persistenced.service"] = serviceText
			}
			list = append(list, d)
		}
	}
	return list
}

// The driver of a line comes from a repository that also has a newer one, by the real apt,
// and is held; its persistence daemon starts at boot. The kernel is as new as its headers.
func TestTheDriverOfALine(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		alone(t)
		publish(t, h, nvidiaRepository()...)
		s := Spec{KubernetesVersion: "1.34.4", NVIDIA: "open-570", Kernel: "linux-image-cloud-amd64"}
		pm := bareDebian(t).PackageManager
		require.NoError(t, pm.Refresh(t.Context(), h))
		require.NoError(t, pm.Install(t.Context(), h, []string{s.Kernel + "=6.0"}))
		apply := func() error {
			require.NoError(t, s.Validate())
			n, err := newNode(s, bareDebian(t), "amd64")
			require.NoError(t, err)
			if err := settle(t, h, pick(n, "packages", "drivers", "system")...); err != nil {
				return err
			}
			held, err := n.distro.PackageManager.Held(h, n.driverPackages())
			require.NoError(t, err)
			assert.Len(t, held, 4, "three of the driver and the headers")
			return nil
		}
		require.ErrorContains(t, apply(), `nvidia: this machine's repositories have no driver of the line "open-570" `+
			`for kernel "linux-image-cloud-amd64"; they have 580, 595`)
		s.NVIDIA = "580"
		require.ErrorContains(t, apply(), `they have none`, "no package has proprietary modules")
		s.NVIDIA = "open-580"
		require.NoError(t, apply())
		names := []string{"nvidia-kernel-open-dkms", "nvidia-driver-cuda", s.Kernel}
		have, err := pm.Installed(t.Context(), h, names)
		require.NoError(t, err)
		assert.Equal(t, map[string]string{names[0]: "580.1.2-1", names[1]: "580.1.2-1", names[2]: "6.1"}, have)
		enabled, err := h.Enablements("nvidia-persistenced.service")
		require.NoError(t, err)
		assert.NotEmpty(t, enabled)

		// Another kernel has no such module, and no program here builds it.
		testkit.Write(t, "/lib/modules/6.2/modules.order", "")
		assert.ErrorContains(t, apply(), "nvidia: the kernel 6.2 has no module nvidia, and no package builds it; "+
			"choose another kernel")
	})
}

// The names of packages follow the distribution, the line and the kernel.
func TestPackagesOfDrivers(t *testing.T) {
	for _, c := range []struct {
		distro, nvidia, kernel string
		want                   []string
	}{
		{"ubuntu", "open-580", "linux-aws", []string{"linux-modules-nvidia-580-server-open-aws",
			"nvidia-headless-no-dkms-580-server-open", "nvidia-utils-580-server"}},
		{"ubuntu", "595", "linux-image-aws-lts-24.04", []string{"linux-modules-nvidia-595-server-aws-lts-24.04",
			"nvidia-headless-no-dkms-595-server", "nvidia-utils-595-server"}},
		{"amazonlinux2023", "580", "kernel6.12", []string{"kmod-nvidia-latest-dkms", "nvidia-driver-cuda",
			"nvidia-persistenced", "kernel6.12-devel"}},
		{"fedora", "open-595", "kernel-core", []string{"kmod-nvidia-open-dkms", "nvidia-driver-cuda",
			"nvidia-persistenced", "kernel-devel"}},
		{"arch", "open-595", "linux-lts", []string{"nvidia-open-dkms", "nvidia-utils", "linux-lts-headers"}},
	} {
		n := nodeOf(t, c.distro, Spec{NVIDIA: c.nvidia, Kernel: c.kernel})
		assert.Equal(t, c.want, n.driverPackages(), c.distro)
	}
}

// asked is a package manager that installs nothing and lists the calls.
type asked struct {
	distros.PackageManager
	have  map[string]string
	calls []string
}

func (r *asked) Installed(context.Context, *host.Host, []string) (map[string]string, error) {
	return r.have, nil
}

func (r *asked) Refresh(context.Context, *host.Host) error { return r.call("refresh", nil) }
func (r *asked) Clean(context.Context, *host.Host) error   { return r.call("clean", nil) }
func (r *asked) Install(_ context.Context, _ *host.Host, names []string) error {
	return r.call("install "+strings.Join(names, " "), errors.New("no space"))
}

func (r *asked) call(what string, err error) error {
	r.calls = append(r.calls, what)
	return err
}

// The package that builds a module is named by the error also when only its headers are
// missing, and no downloads stay in the image when the installation fails.
func TestPackagesOfAModule(t *testing.T) {
	n := nodeOf(t, "debian", Spec{EFA: true})
	h := hosttest.Root(t, nil)
	pm := &asked{PackageManager: n.distro.PackageManager, have: map[string]string{"efa": "3.0"}}
	n.distro.PackageManager = pm
	efa := n.options()[0]
	_, err := n.planModule(t.Context(), h, efa, []string{"6.2"})
	require.EqualError(t, err, "efa: the kernel 6.2 has no module efa; set kernel to one that has it, or for which "+
		"the package efa is built")
	n.spec.Kernel = "linux-image-cloud-amd64"
	actions, err := n.planModule(t.Context(), h, efa, []string{"6.2"})
	require.NoError(t, err)
	require.EqualError(t, actions[0].Do(t.Context(), nil), "no space")
	assert.Equal(t, []string{"refresh", "install linux-headers-cloud-amd64", "clean"}, pm.calls)
}

// Kernels are those whose package is installed, and a module may be compressed or built in.
func TestKernelsWithoutAModule(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		for kernel, files := range map[string]map[string]string{
			"1-has":     {"modules.order": "", "modules.dep": "kernel/drivers/infiniband/hw/efa/efa.ko.xz: kernel/ib_core.ko.xz\n"},
			"2-builtin": {"modules.order": "", "modules.builtin": "kernel/drivers/infiniband/hw/efa/efa.ko\n"},
			"3-others": {"modules.order": "",
				"modules.dep": "kernel/lefa.ko:\nkernel/efa2.ko:\nkernel/x.ko: kernel/efa.ko.gz\n"},
			"4-removed": {"modules.dep": ""},
		} {
			for name, text := range files {
				require.NoError(t, os.MkdirAll("/lib/modules/"+kernel, 0o755))
				require.NoError(t, os.WriteFile(fmt.Sprintf("/lib/modules/%s/%s", kernel, name), []byte(text), 0o644))
			}
		}
		lacking, err := kernelsWithout(h, "efa")
		require.NoError(t, err)
		assert.Equal(t, []string{"3-others"}, lacking)
	})
}
