package provisioner

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// source is a mirror with small assets of every requested version.
type source struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
	// broken are parts of paths for which the mirror answers 404.
	broken []string
	// plugins are the members of the CNI plugins' archive.
	plugins []string
}

func newSource(t *testing.T) *source {
	s := &source{plugins: []string{"bridge", "loopback"}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *source) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.URL.Path)
	for _, b := range s.broken {
		if strings.Contains(r.URL.Path, b) {
			http.NotFound(w, r)
			return
		}
	}
	name, isSum := strings.CutSuffix(r.URL.Path, ".sha256")
	data := s.content(name)
	switch {
	case isSum && strings.HasSuffix(name, ".tgz"):
		_, _ = fmt.Fprintf(w, "%s  %s\n", manifest.Sum(data), filepath.Base(name))
	case isSum:
		_, _ = fmt.Fprint(w, manifest.Sum(data))
	default:
		_, _ = w.Write(data)
	}
}

func (s *source) content(name string) []byte {
	if !strings.HasSuffix(name, ".tgz") {
		return []byte("the program at " + name)
	}
	var members []string
	for _, m := range s.plugins {
		members = append(members, "./"+m, m+" of "+name)
	}
	return testkit.Gzip(testkit.Tar(0o755, members...))
}

func (s *source) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

// installedDebian is a bare Debian with all packages installed: no command needs to
// run, so its image root can be provisioned.
func installedDebian(t *testing.T) (*host.Host, distros.Distro) {
	t.Helper()
	d := distroOf(t, "debian")
	h := bare(t, d)
	var status strings.Builder
	for i, name := range d.AllPackages() {
		fmt.Fprintf(&status, "Package: %s\nStatus: install ok installed\nVersion: 1.%d\n\n", name, i)
	}
	require.NoError(t, h.Files.WriteFile("/var/lib/dpkg/status", []byte(status.String()), host.Attributes{Mode: 0o644}))
	return h, d
}

// scene is installedDebian with a mirror and a spec that uses it.
func scene(t *testing.T) (*host.Host, distros.Distro, *source, Spec) {
	t.Helper()
	h, d := installedDebian(t)
	s := newSource(t)
	return h, d, s, Spec{KubernetesVersion: "1.34.4", SourceURL: s.URL, AllowHTTP: true}
}

// apply applies all steps.
func apply(t *testing.T, h *host.Host, d distros.Distro, spec Spec) ([]plan.Outcome, error) {
	t.Helper()
	items, err := Steps(spec, d, Inputs{Arch: "amd64"})
	require.NoError(t, err)
	return plan.Apply(t.Context(), h, items, nil)
}

// provision applies all steps without an error.
func provision(t *testing.T, h *host.Host, d distros.Distro, spec Spec) []plan.Outcome {
	t.Helper()
	outcomes, err := apply(t, h, d, spec)
	require.NoError(t, err)
	return outcomes
}

func pending(t *testing.T, h *host.Host, d distros.Distro, spec Spec) string {
	t.Helper()
	items, err := Steps(spec, d, Inputs{Arch: "amd64"})
	require.NoError(t, err)
	list := plan.Make(t.Context(), h, items)
	requirePlanned(t, list)
	return text(list)
}

// state is every file with its mode, time of change and content.
func state(t *testing.T, h *host.Host) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.Walk(h.Root(), func(name string, st os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		what := fmt.Sprint(st.Mode(), st.ModTime())
		if st.Mode().IsRegular() {
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			what += manifest.Sum(data)
		}
		all[strings.TrimPrefix(name, h.Root())] = what
		return nil
	}))
	return all
}

func TestASecondProvisionChangesNothing(t *testing.T) {
	h, d, s, spec := scene(t)
	spec.Sysctls = map[string]string{"vm.max_map_count": "262144"}
	byStep := map[string]plan.Status{}
	for _, o := range provision(t, h, d, spec) {
		byStep[o.Item] = o.Status
	}
	assert.Equal(t, map[string]plan.Status{
		"requirements": plan.Unchanged, "packages": plan.Unchanged, "authorities": plan.Unchanged, "directories": plan.Done,
		"kubelet": plan.Done, "ecr-credential-provider": plan.Done, "cni-plugins": plan.Done,
		"templates": plan.Done, "units": plan.Done, "system": plan.Done, "labels": plan.Unchanged, "modules": plan.Done, "sysctls": plan.Done, "kernel-arguments": plan.Unchanged,
		"swap": plan.Unchanged, "images": plan.Unchanged, "command": plan.Done, "first-boot": plan.Done, "manifest": plan.Done,
	}, byStep)
	require.NotEmpty(t, s.requests())
	assert.Empty(t, pending(t, h, d, spec))
	before := state(t, h)

	for _, o := range provision(t, h, d, spec) {
		assert.Equal(t, plan.Unchanged, o.Status, o.Item)
	}
	assert.Equal(t, before, state(t, h), "no content and no time of change")
	assert.Empty(t, s.requests(), "and no network")
}

func TestTheManifestDescribesTheMachine(t *testing.T) {
	h, d, s, spec := scene(t)
	provision(t, h, d, spec)
	m, err := manifest.Load(h)
	require.NoError(t, err)
	assert.Equal(t, "debian", m.Distro)
	assert.Equal(t, "12", m.DistroVersion)
	assert.Equal(t, "amd64", m.Arch)
	assert.Equal(t, "1.34.4", m.KubernetesVersion)
	assert.Equal(t, nodeOf(t, "debian", Spec{}).unitIntentions(), m.Units)
	assert.Contains(t, m.Packages, manifest.Package{Name: "containerd", Version: "1.0"})
	assert.Len(t, m.Packages, len(d.AllPackages()))
	kubelet, ok := m.Asset("kubelet")
	require.True(t, ok)
	assert.Equal(t, s.URL+"/dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet", kubelet.URL)
	for _, a := range m.Assets {
		differs, err := a.Differs(h)
		require.NoError(t, err)
		assert.Empty(t, differs)
	}
	for _, f := range m.Files {
		differs, err := f.Differs(h)
		require.NoError(t, err)
		assert.Empty(t, differs)
	}
	for _, path := range []string{"/var/lib/kubelet/kubeconfig", "/etc/kubernetes/kubelet/kubelet-config.json", "/etc/eks/containerd/containerd-config.toml", "/etc/eks/image-credential-provider/config.json"} {
		tpl, ok := m.Template(path)
		require.True(t, ok, path)
		assert.Equal(t, content(t, h, path), tpl.Content)
	}
}

func TestTheNextProvisionFinishesAFailedOne(t *testing.T) {
	h, d, s, spec := scene(t)
	s.broken = []string{"artifacts.k8s.io"}
	outcomes, err := apply(t, h, d, spec)
	require.ErrorContains(t, err, "ecr-credential-provider: fetch /etc/eks/image-credential-provider/ecr-credential-provider: ecr-credential-provider 1.37.0 does not exist at "+s.URL)
	require.ErrorContains(t, err, `; check versions["ecr-credential-provider"] or what the mirror `+s.URL+" holds")
	skipped := 0
	for _, o := range outcomes {
		if o.Status == plan.Skipped {
			skipped++
		}
	}
	assert.Equal(t, 13, skipped, "no step after the failure begins")
	s.requests()

	s.broken = nil
	provision(t, h, d, spec)
	assert.Empty(t, pending(t, h, d, spec))
	for _, asked := range s.requests() {
		assert.NotContains(t, asked, "/kubelet", "installed files are not fetched again")
	}
}

func TestTheNextProvisionFinishesAKilledOne(t *testing.T) {
	h, d, _, spec := scene(t)
	left := []string{
		"/usr/bin/.kubelet.eksnode-0123456789abcdef", "/usr/bin/.eksnode.eksnode-0123456789abcdef", "/opt/cni/bin/.eksnode-cni-plugins/bridge",
		"/var/lib/kubelet/.kubeconfig.eksnode-0123456789abcdef", "/etc/eks/eksnode/.manifest.json.eksnode-0123456789abcdef",
		"/etc/sysctl.d/.99-zz-eksnode.conf.eksnode-0123456789abcdef",
	}
	for _, name := range left {
		require.NoError(t, h.Files.WriteFile(name, []byte("half"), host.Attributes{Mode: 0o600}))
	}
	require.NoError(t, h.Files.WriteFile("/usr/sbin/policy-rc.d", []byte("#!/bin/sh\n# eksnode: no service starts while packages are installed\nexit 101\n"), host.Attributes{Mode: 0o755}))
	provision(t, h, d, spec)
	for _, name := range append(left, "/opt/cni/bin/.eksnode-cni-plugins", "/usr/sbin/policy-rc.d") {
		_, err := h.Files.Lstat(name)
		assert.ErrorIs(t, err, os.ErrNotExist, name)
	}
}

func TestChangedFilesAreRestored(t *testing.T) {
	h, d, s, spec := scene(t)
	provision(t, h, d, spec)
	write := func(name, content string) func() error {
		return func() error { return h.Files.WriteFile(name, []byte(content), host.Attributes{Mode: 0o644}) }
	}
	tests := map[string]struct {
		change func() error
		want   string
	}{
		"kubelet forged": {write("/usr/bin/kubelet", "forged"),
			"kubelet\n  fetch /usr/bin/kubelet\n    kubelet 1.34.4 from " + s.URL + "/dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet (the node's agent): /usr/bin/kubelet is not what was installed\n"},
		"plugin missing": {func() error { return h.Files.Remove("/opt/cni/bin/loopback") },
			"cni-plugins\n  fetch /opt/cni/bin\n    cni-plugins 1.10.0 from " + s.URL + "/github.com/containernetworking/plugins/releases/download/v1.10.0/cni-plugins-linux-amd64-v1.10.0.tgz (the VPC CNI's chain ends in them): /opt/cni/bin/loopback is missing\n"},
		"kubelet not executable": {func() error { return h.Files.Chmod("/usr/bin/kubelet", 0o644) },
			"kubelet\n  fetch /usr/bin/kubelet\n    kubelet 1.34.4 from " + s.URL + "/dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet (the node's agent): /usr/bin/kubelet is not what was installed\n"},
		"a cluster joined": {write("/var/lib/kubelet/kubeconfig", "server: https://old"),
			"templates\n  write /var/lib/kubelet/kubeconfig\n    bootstrap.sh fills in MASTER_ENDPOINT, CLUSTER_NAME and AWS_REGION\n"},
		"template with another owner": {func() error { return h.Files.Chown("/var/lib/kubelet/kubeconfig", 1000, 1000) },
			"templates\n  write /var/lib/kubelet/kubeconfig\n    bootstrap.sh fills in MASTER_ENDPOINT, CLUSTER_NAME and AWS_REGION\n"},
		"sysctls world-writable": {func() error { return h.Files.Chmod("/etc/sysctl.d/99-zz-eksnode.conf", 0o666) },
			"sysctls\n  write /etc/sysctl.d/99-zz-eksnode.conf\n    kernel settings that the kubelet demands\n"},
		"kubelet enabled": {func() error {
			if err := h.Files.MkdirAll("/etc/systemd/system/multi-user.target.wants", 0o755); err != nil {
				return err
			}
			return h.Files.SymlinkIfPossible("/usr/lib/systemd/system/kubelet.service", "/etc/systemd/system/multi-user.target.wants/kubelet.service")
		}, "units\n  disable kubelet.service\n    only first boot may start this unit\n"},
		"an older command": {write("/usr/bin/eksnode", "older"),
			"command\n  write /usr/bin/eksnode\n    audits the image and lets it join at first boot\n"},
		"a package upgraded": {func() error {
			status, err := h.Content("/var/lib/dpkg/status")
			if err != nil {
				return err
			}
			return write("/var/lib/dpkg/status", strings.Replace(string(status), "Version: 1.0", "Version: 2.0", 1))()
		}, "manifest\n  write /etc/eks/eksnode/manifest.json\n    records what the image contains; the scrub restores files from the manifest\n"},
		"swap": {write("/etc/fstab", "/dev/sda2 none swap sw 0 0\n"),
			"swap\n  write /etc/fstab\n    a kubelet does not start with swap\n"},
		"zram": {write("/usr/lib/systemd/system-generators/zram-generator", ""), "swap\n  write /etc/systemd/zram-generator.conf\n    a kubelet does not start with swap\n"},
		"a folder gone": {func() error { _, err := h.Files.RemoveTree("/etc/cni/net.d"); return err },
			"directories\n  mkdir /etc/cni/net.d\n    empty until the VPC CNI writes its own\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, test.change())
			assert.Equal(t, test.want, pending(t, h, d, spec))
			provision(t, h, d, spec)
			assert.Empty(t, pending(t, h, d, spec))
		})
	}
}

func TestAnotherVersionReplacesTheOld(t *testing.T) {
	h, d, s, spec := scene(t)
	s.plugins = []string{"bridge", "vlan", "loopback"}
	spec.Versions = map[string]string{"cni-plugins": "1.6.2"}
	provision(t, h, d, spec)
	require.NoError(t, h.Files.WriteFile("/opt/cni/bin/aws-cni", []byte("the VPC CNI's own"), host.Attributes{Mode: 0o755}))

	s.plugins = []string{"bridge", "loopback", "tap"}
	spec.KubernetesVersion, spec.Versions = "1.35.0", nil
	assert.Contains(t, pending(t, h, d, spec), "(the node's agent): 1.34.4 is installed\n")
	provision(t, h, d, spec)
	assert.Equal(t, []string{"aws-cni", "bridge", "loopback", "tap"}, testkit.Names(t, filepath.Join(h.Root(),
		"opt/cni/bin")), "vlan is removed with its version; files of others stay")
	assert.Empty(t, pending(t, h, d, spec))
}

func TestAnotherSourceOrSumIsFetchedAgain(t *testing.T) {
	h, d, s, spec := scene(t)
	provision(t, h, d, spec)

	pinned := spec
	pinned.Checksums = map[string]string{"kubelet": strings.Repeat("0", 64)}
	assert.Contains(t, pending(t, h, d, pinned), "the installed file has another sum than the pinned one")
	before := state(t, h)
	_, err := apply(t, h, d, pinned)
	require.ErrorContains(t, err, `but checksums["kubelet"] says 000`)
	assert.Equal(t, before["/usr/bin/kubelet"], state(t, h)["/usr/bin/kubelet"])

	upstream := Spec{KubernetesVersion: "1.34.4"}
	assert.Contains(t, pending(t, h, d, upstream), "the installed file came from "+s.URL+"/dl.k8s.io/")
}

func TestKubeletsBefore127NeedNoCredentialProvider(t *testing.T) {
	h, d := installedDebian(t)
	for version, want := range map[string]bool{"1.24.0": false, "1.26.15": false, "1.27.0": true, "1.37.0": true} {
		got := pending(t, h, d, Spec{KubernetesVersion: version})
		assert.Equal(t, want, strings.Contains(got, "ecr-credential-provider"), version)
		assert.Equal(t, want, strings.Contains(got, "/etc/eks/image-credential-provider/config.json"), version)
	}
}

func TestADamagedManifestIsAnErrorWithTheRemedy(t *testing.T) {
	h, d := installedDebian(t)
	require.NoError(t, h.Files.WriteFile(manifest.Path, []byte("{"), host.Attributes{Mode: 0o644}))
	_, err := apply(t, h, d, Spec{KubernetesVersion: "1.34.4"})
	require.EqualError(t, err, "kubelet: reading the image's manifest /etc/eks/eksnode/manifest.json: line 1, column 2: the text ends too early; remove the file and provision again")
}

func TestPackagesNeedTheLiveMachine(t *testing.T) {
	d := distroOf(t, "debian")
	_, err := apply(t, bare(t, d), d, Spec{KubernetesVersion: "1.34.4"})
	require.ErrorIs(t, err, host.ErrMountedRoot)
}

func TestTheManifestReplacesTheRPMDatabaseOnAnImageRoot(t *testing.T) {
	d := distroOf(t, "amazonlinux2023")
	h := bare(t, d)
	m := &manifest.Manifest{}
	for _, name := range d.AllPackages() {
		m.Packages = append(m.Packages, manifest.Package{Name: name, Version: "1-1"})
	}
	require.NoError(t, m.Save(h))
	assert.NotContains(t, pending(t, h, d, Spec{KubernetesVersion: "1.34.4"}), "install ")
	assert.Contains(t, pending(t, h, d, Spec{KubernetesVersion: "1.34.4", Packages: []string{"chrony"}}), "  install chrony\n    listed in packages\n")
}
