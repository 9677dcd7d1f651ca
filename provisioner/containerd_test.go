package provisioner

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// releaseOf is a distribution as Detect returns it for a fixture.
func releaseOf(t *testing.T, fixture string) distros.Distro {
	t.Helper()
	d, _, err := distros.Detect(bareOf(t, fixture), "")
	require.NoError(t, err)
	return d
}

// With containerd = "2", upstream's archives replace an older package, and nothing
// else changes.
func TestContainerd2(t *testing.T) {
	for fixture, upstream := range map[string]bool{
		"amazonlinux2": true, "debian": true, "debian-13": true, "ubuntu": true, "ubuntu-26.04": false, "fedora": false, "arch": false,
		"amazonlinux2023": false, "flatcar": false, "opensuse-leap-15": true, "opensuse-leap-16": true, "sles": true, "rocky": true,
	} {
		t.Run(fixture, func(t *testing.T) {
			d := releaseOf(t, fixture)
			n := nodeFor(t, Spec{KubernetesVersion: "1.34.4", Containerd: "2"}, d, "amd64")
			assert.Equal(t, upstream, n.has("containerd"))
			assert.Equal(t, upstream, n.has("runc"))
			if d.NewestKubernetes == 0 {
				byKubelet := nodeFor(t, Spec{KubernetesVersion: "1.36.3"}, d, "amd64")
				assert.Equal(t, n.packageNames(), byKubelet.packageNames(), "containerd 2 is the default from 1.36 on")
				assert.Equal(t, upstream, byKubelet.has("containerd"))
			}
			plain := nodeFor(t, Spec{KubernetesVersion: "1.34.4"}, d, "amd64")
			units := 0
			for _, f := range n.stepFiles("units") {
				if filepath.Base(f.Path) == "containerd.service" {
					units++
				}
			}
			assert.Equal(t, upstream, units == 1)
			if upstream {
				assert.NotContains(t, n.packageNames(), "containerd")
				assert.NotContains(t, n.packageNames(), "runc")
			} else {
				assert.Equal(t, plain.packageNames(), n.packageNames())
			}
		})
	}
}

// A line or a complete version comes from the archive, also where the package is new.
func TestContainerdOfALine(t *testing.T) {
	of := func(value string) Spec { return Spec{KubernetesVersion: "1.34.4", Containerd: value} }
	byVersions := of("2")
	byVersions.Versions = map[string]string{"containerd": "2.1.5"}
	for want, c := range map[string]struct {
		spec     Spec
		fixtures []string
	}{
		"2.3.7": {of("2.3"), []string{"debian", "amazonlinux2023", "rocky"}},
		"2.4.1": {of("2.4.1"), []string{"debian", "amazonlinux2023", "rocky"}},
		"2.1.5": {byVersions, []string{"debian"}},
	} {
		for _, fixture := range c.fixtures {
			n := nodeFor(t, c.spec, releaseOf(t, fixture), "arm64")
			assert.NotContains(t, n.packageNames(), "containerd")
			at := slices.IndexFunc(n.downloads, func(d asset.Download) bool { return d.ID == "containerd" })
			require.GreaterOrEqual(t, at, 0, fixture)
			assert.Equal(t, "https://github.com/containerd/containerd/releases/download/v"+want+
				"/containerd-static-"+want+"-linux-arm64.tar.gz", n.downloads[at].URL)
		}
	}
}

// An installed package keeps its unit, which would be the same file as upstream's.
func TestContainerd2NeedsAMachineWithoutThePackage(t *testing.T) {
	n := nodeFor(t, Spec{KubernetesVersion: "1.34.4", Containerd: "2"}, releaseOf(t, "debian"), "amd64")
	assert.Equal(t, []string{"containerd", "runc"}, n.replaced)
	f := facts{systemd: true, proc: true, arch: "amd64"}
	require.NoError(t, n.judge(f))
	f.replaced = map[string]string{"runc": "1.1.5+ds1-1"}
	require.NoError(t, n.judge(f), "both versions of runc can be installed")
	f.replaced["containerd"] = "1.6.20~ds1-1"
	require.EqualError(t, n.judge(f), `the package containerd 1.6.20~ds1-1 is installed, but containerd = "2" takes containerd from upstream's archive; remove the package, or choose a base image without it`)
}

// Without replaced packages, the package manager gets no empty list, which rpm refuses.
func TestNothingReplacedAsksNoPackageManager(t *testing.T) {
	n := nodeFor(t, Spec{KubernetesVersion: "1.34.4"}, releaseOf(t, "rocky"), "amd64")
	n.distro.PackageManager = nil // would panic
	h := hosttest.Live(t)
	f, err := n.ask(t.Context(), h)
	require.NoError(t, err)
	assert.Empty(t, f.replaced)
}

// The plan of a bare machine shows the difference to the package.
func TestContainerd2InAPlan(t *testing.T) {
	h := bareOf(t, "debian")
	items, err := Steps(Spec{KubernetesVersion: "1.34.4", Containerd: "2"}, releaseOf(t, "debian"), Inputs{Arch: "amd64"})
	require.NoError(t, err)
	list := plan.Make(t.Context(), h, items)
	requirePlanned(t, list)
	got := text(list)
	assert.Contains(t, got, "containerd\n  fetch /usr/local\n    containerd 2.3.7 from https://github.com/containerd/containerd/releases/download/v2.3.7/containerd-static-2.3.7-linux-amd64.tar.gz (runs containers): not installed\n")
	assert.Contains(t, got, "  write /usr/lib/systemd/system/containerd.service\n    starts upstream's containerd\n")
	assert.False(t, strings.Contains(got, "install containerd"), got)
}
