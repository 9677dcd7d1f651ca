//go:build linux

package machine

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
)

func image(t *testing.T) string {
	t.Helper()
	m := manifest.Manifest{Assets: []manifest.Asset{
		{ID: "kubelet", Version: "1.34.4", Files: []manifest.File{{Path: "/usr/bin/kubelet", Size: 7}}},
		{ID: "containerd", Version: "2.1.4", Files: []manifest.File{{Path: "/usr/bin/containerd", Size: 10}}},
	}}
	text, err := m.Encode()
	require.NoError(t, err)
	return string(text)
}

func TestMachineFacts(t *testing.T) {
	h := hosttest.Root(t, map[string]string{
		manifest.Path: image(t), "/usr/bin/kubelet": "kubelet", "/usr/bin/containerd": "containerd",
		"/proc/meminfo": "MemTotal:        8028284 kB\nMemFree: 1 kB\n", "/proc/sys/crypto/fips_enabled": "1\n",
		OnlineCPUs: "0-3,6-7\n",
		"/sys/bus/pci/devices/0000:00:1e.0/vendor": "0x1d0f\n", "/sys/bus/pci/devices/0000:00:1f.0/vendor": "0x10de\n",
		"/sys/bus/pci/devices/0000:00:1f.0/class": "0x030200\n", "/sys/bus/pci/devices/0000:00:1f.0/driver/bind": "",
		"/etc/eks/image-credential-provider/ecr-credential-provider": "x", "/usr/bin/nvidia-container-runtime": "x",
		"/usr/lib/systemd/system/soci-snapshotter.service": "[Unit]", "/sys/fs/cgroup/cgroup.controllers": "cpu",
		"/etc/eks/pause.tar": "x", "/usr/sbin/runc": "x", "/usr/local/sbin/runc": "x",
		"/etc/resolv.conf": "-> ../run/systemd/resolve/stub-resolv.conf",
	})
	f, err := Gather(t.Context(), h, "/usr/bin/eksnode")
	require.NoError(t, err)
	assert.Equal(t, Facts{
		Kubelet: Version{1, 34, 4}, Containerd: Version{2, 1, 4}, CPUs: 6, MemoryMiB: 7840,
		FIPS: true, ResolvedStub: true, NVIDIA: true, NVIDIARuntime: true, SOCI: true, CredentialProvider: true,
		HasPause: true, Runc: "/usr/local/sbin/runc", Command: "/usr/bin/eksnode",
	}, f)
}

func TestFactsOfAMinimalMachine(t *testing.T) {
	h := hosttest.Root(t, map[string]string{
		manifest.Path: image(t), "/usr/bin/kubelet": "kubelet", "/usr/bin/containerd": "containerd",
	})
	f, err := Gather(t.Context(), h, "/usr/bin/eksnode")
	require.NoError(t, err)
	assert.Equal(t, Facts{
		Kubelet: Version{1, 34, 4}, Containerd: Version{2, 1, 4}, CgroupV1: true, Command: "/usr/bin/eksnode",
	}, f)
}

// A program with another size than the manifest's is run for its version. Here this
// fails, because an image root runs no programs.
func TestReplacedProgramIsRunForItsVersion(t *testing.T) {
	h := hosttest.Root(t, map[string]string{manifest.Path: image(t), "/usr/bin/kubelet": "another kubelet"})
	_, err := Gather(t.Context(), h, "/usr/bin/eksnode")
	require.ErrorIs(t, err, host.ErrMountedRoot)
	assert.ErrorContains(t, err, "finding the version of kubelet: running kubelet --version")
}

func TestResolvedStubIsRecognized(t *testing.T) {
	for resolv, want := range map[string]bool{
		"-> ../run/systemd/resolve/stub-resolv.conf": true,
		"-> /run/systemd/resolve/stub-resolv.conf":   true,
		"-> /run/systemd/resolve/resolv.conf":        false,
		"# x\nnameserver 127.0.0.53\n":               true,
		"nameserver 10.0.0.2\n":                      false,
	} {
		got, err := resolvedStub(hosttest.Root(t, map[string]string{"/etc/resolv.conf": resolv}))
		require.NoError(t, err)
		assert.Equal(t, want, got, resolv)
	}
}

func TestVersionsAreParsed(t *testing.T) {
	for text, want := range map[string]Version{
		"Kubernetes v1.34.4-eks-1a2b3c4":                                 {1, 34, 4},
		"containerd github.com/containerd/containerd/v2 v2.2.0-rc.1 abc": {2, 2, 0},
		"containerd containerd.io 1.6.20~ds1-1+deb12u1 3ad9a8e":          {1, 6, 20},
		"1.24": {1, 24, 0},
		"containerd github.com/containerd/containerd 1.7.27-0ubuntu1": {1, 7, 27},
	} {
		v, err := ParseVersion(text)
		require.NoError(t, err)
		assert.Equal(t, want, v, text)
	}
	_, err := ParseVersion("no version")
	assert.EqualError(t, err, `there is no version in "no version"`)
	assert.True(t, Version{1, 29, 9}.Less(1, 30))
	assert.False(t, Version{1, 30, 0}.Less(1, 30))
	assert.True(t, Version{1, 99, 0}.Less(2, 0))
	assert.Equal(t, "1.34.4", Version{1, 34, 4}.String())
}

// A GPU without a driver is one warning, with the state of the module.
func TestGPUsThatNoDriverServes(t *testing.T) {
	gpu := func(address, class string) map[string]string {
		folder := "/sys/bus/pci/devices/" + address + "/"
		return map[string]string{folder + "vendor": "0x10de\n", folder + "class": class + "\n", folder + "device": "0x1db1\n"}
	}
	const want = "pods cannot use the GPU 0000:00:1e.0 (0x1db1): no driver serves it, the module nvidia %s; " +
		"use an image with a driver for this instance type"
	for name, c := range map[string]struct {
		more map[string]string
		want []string
	}{
		"not loaded": {nil, []string{fmt.Sprintf(want, "is not loaded")}},
		"another": {map[string]string{"/sys/module/nvidia/version": "595.71.05\n"},
			[]string{fmt.Sprintf(want, "has the version 595.71.05")}},
		"served":        {map[string]string{"/sys/bus/pci/devices/0000:00:1e.0/driver/bind": ""}, nil},
		"also a switch": {gpu("0000:00:1d.0", "0x068000"), []string{fmt.Sprintf(want, "is not loaded")}},
	} {
		t.Run(name, func(t *testing.T) {
			files := gpu("0000:00:1e.0", "0x030200")
			maps.Copy(files, c.more)
			has, warnings, err := nvidia(hosttest.Root(t, files))
			require.NoError(t, err)
			assert.True(t, has)
			assert.Equal(t, c.want, warnings)
		})
	}
}
