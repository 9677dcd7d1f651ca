package provisioner

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/e2e/livetest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

const somePublicKey = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n-----END PGP PUBLIC KEY BLOCK-----\n"

// certificate makes a certificate, of an authority or not.
func certificate(t *testing.T, name string, isCA bool) string {
	t.Helper()
	made, _ := testkit.Certificate(t, x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0), IsCA: isCA,
	})
	return string(made)
}

// everything sets all options that a distribution has.
func everything(t *testing.T, d distros.Distro) Spec {
	t.Helper()
	s := Spec{
		KubernetesVersion: "1.34.4", CACertificates: map[string]string{"example": certificate(t, "Example", true)},
		KernelArguments: []string{"quiet", "nvme_core.io_timeout=4294967295"}, Hardening: []string{"umask", "tmp-noexec"},
	}
	if d.Can(distros.NVIDIA) {
		s.NVIDIAContainerToolkit = "volume-mounts"
	}
	s.EFA, s.SOCI, s.Neuron = d.Can(distros.EFA), d.Can(distros.SOCI), d.Can(distros.Neuron)
	if len(d.NVIDIA.Open) > 0 {
		s.NVIDIA = "open-580"
	}
	if d.Can(distros.Audit) {
		s.Hardening = append(s.Hardening, "audit")
	}
	if _, err := d.PackageManager.Pinned("containerd", "1.7.24-1"); err == nil {
		s.PackageVersions = map[string]string{"containerd": "1.7.24-1"}
	}
	if d.FIPS.Enable != "" {
		s.FIPS = fipsCheck
	}
	if len(d.FIPS.Setup) > 0 {
		s.FIPS = fipsEnable
	}
	if d.Can(distros.Agents) {
		s.Agents = Agents()
	}
	if d.Can(distros.Swap) {
		s.Swap = swapZram
	}
	if len(d.PackageManager.Kernels().Offered) > 0 {
		s.Kernel = "linux-of-choice"
	}
	s.NTPServers = []string{"ntp1.example", "169.254.169.123"}
	if d.Network.DNS.Unit != "" {
		s.DNSServers = []string{"10.0.0.2", "fd00:ec2::253"}
	}
	s.NodeDefaults = NodeDefaults{KubeletDefaults: "maxPods: 110", RegistryMirrors: map[string]string{"docker.io": "https://mirror.example"}}
	if form := d.PackageManager.RepositoryForm(); form.File != "" {
		text := "[extra]\n"
		if form.Check(text, true) != nil {
			text = "Types: deb\nURIs: https://example.com\n"
		}
		s.Repositories, s.RepositoryKeys = map[string]string{"extra": text}, map[string]string{"extra": somePublicKey}
	}
	return s
}

// various are distributions that differ in everything that options change.
var various = []string{"amazonlinux2023", "arch", "debian", "flatcar", "sles"}

func TestGoldenPlansOfOptions(t *testing.T) {
	for _, id := range various {
		t.Run(id, func(t *testing.T) {
			d := distroOf(t, id)
			items, err := Steps(everything(t, d), d, Inputs{Arch: "amd64"})
			require.NoError(t, err)
			var list []plan.Planned
			for _, p := range plan.Make(t.Context(), bare(t, d), items) {
				if strings.Contains("packages kernel drivers authorities system sysctls kernel-arguments fips swap", p.Item) { // the items that options change
					list = append(list, p)
				}
			}
			requirePlanned(t, list)
			golden := filepath.Join("testdata", "options", id+".golden")
			if *update {
				testkit.Write(t, golden, text(list))
			}
			assert.Equal(t, testkit.Content(t, golden), text(list))
		})
	}
}

// Every distribution accepts all options that it supports and refuses the others.
func TestEveryDistroAcceptsItsOptions(t *testing.T) {
	for _, d := range distros.All() {
		_, err := Steps(everything(t, d), d, Inputs{Arch: "amd64"})
		require.NoError(t, err, d.ID)
	}
}

// A bill of materials has an address for the packages of every distribution.
func TestEveryDistroHasPackageURLs(t *testing.T) {
	for _, d := range distros.All() {
		m := manifest.Manifest{PackageManager: d.PackageManager.Name(), Packages: []manifest.Package{{Name: "runc"}}}
		assert.Equal(t, d.HasPackages(), m.Components()[0].PackageURL != "", "purlTypes lacks %s", m.PackageManager)
	}
}

func TestAuthoritiesAreValidated(t *testing.T) {
	good, web := certificate(t, "Example", true), certificate(t, "web", false)
	for want, authorities := range map[string]map[string]string{
		`ca_certificates["../x"] is not a name; allowed are small letters, digits and -, ` +
			"beginning and ending with a letter or digit": {"../x": good},
		`ca_certificates["x"]: the text has more than one certificate; give each its own name`: {"x": good + good},
		`ca_certificates["x"]: "web" is not an authority's certificate, ` +
			"so certificates that it signed would not be trusted": {"x": web},
	} {
		require.EqualError(t, Spec{KubernetesVersion: "1.34.4", CACertificates: authorities}.Validate(), want)
	}
}

// A second run writes the options' files, lines and links unchanged.
func TestOptionsAreInstalled(t *testing.T) {
	d := distroOf(t, "debian")
	h := bare(t, d)
	write := func(name, text string) {
		require.NoError(t, h.Files.WriteFile(name, []byte(text), host.Attributes{Mode: 0o640}))
	}
	write("/etc/login.defs", "MAIL_DIR /var/mail\n#UMASK 022\nUMASK\t\t022\nUID_MIN 1000\n")
	const nvidiaConfig = "/etc/nvidia-container-runtime/config.toml"
	write(nvidiaConfig, "#accept-nvidia-visible-devices-as-volume-mounts = false\n\n[nvidia-container-cli]\nload-kmods = true\n")
	n := nodeFor(t, everything(t, d), d, "amd64")
	require.NoError(t, settle(t, h, pick(n, "system", "sysctls")...))

	text, err := h.Content("/etc/login.defs")
	require.NoError(t, err)
	assert.Equal(t, "MAIL_DIR /var/mail\nUMASK\t\t027\nUID_MIN 1000\n", string(text))
	attr, err := h.Files.Attributes("/etc/login.defs")
	require.NoError(t, err)
	assert.Equal(t, host.Attributes{Mode: 0o640}, attr, "a file of another program keeps its mode")
	text, err = h.Content(nvidiaConfig)
	require.NoError(t, err)
	assert.Equal(t, "accept-nvidia-visible-devices-envvar-when-unprivileged = false\naccept-nvidia-visible-devices-as-volume-mounts = true\n\n[nvidia-container-cli]\nload-kmods = true\n", string(text))
	text, err = h.Content("/etc/sysctl.d/99-zz-eksnode.conf")
	require.NoError(t, err)
	assert.Contains(t, string(text), "\nvm.nr_hugepages = 5128\n")
	to, err := h.Files.ReadlinkIfPossible("/etc/systemd/system/local-fs.target.wants/tmp.mount")
	require.NoError(t, err)
	assert.Equal(t, "/etc/systemd/system/tmp.mount", to)
}

func TestASpecsSysctlComesBeforeAnOptions(t *testing.T) {
	n := nodeOf(t, "debian", Spec{EFA: true, Sysctls: map[string]string{"vm.nr_hugepages": "64"}})
	assert.Equal(t, "64", n.allSysctls()["vm.nr_hugepages"])
}

func TestFIPSModeIsChecked(t *testing.T) {
	for id, want := range map[string]string{
		"rhel":   "run fips-mode-setup --enable and restart before provisioning; on release 10, which has no fips-mode-setup, install the base image with fips=1 on the kernel command line",
		"fedora": "install the base image with fips=1 on the kernel command line",
	} {
		n := nodeOf(t, id, Spec{FIPS: "check"})
		f := facts{systemd: true, proc: true, arch: "amd64"}
		require.EqualError(t, n.judge(f), "this machine does not run in FIPS mode, but fips is set; "+want)
		f.fips = true
		require.NoError(t, n.judge(f))
	}
}

// The tool runs once: the policy and the boot loader's arguments say that it has.
func TestFIPSModeIsEnabled(t *testing.T) {
	n := nodeOf(t, "rhel", Spec{FIPS: "enable"})
	require.NoError(t, n.judge(facts{systemd: true, proc: true, arch: "amd64"}), "the image starts in FIPS mode, not the builder machine")
	require.Contains(t, n.packageNames(), "crypto-policies-scripts")
	h := bare(t, n.distro)
	n.distro.Kernel = distros.GrubDropIn() // whose arguments are a file
	plans := func() int {
		answer, err := pick(n, "fips")[0].Plan(t.Context(), h)
		require.NoError(t, err)
		return len(answer.Actions)
	}
	require.Equal(t, 1, plans())
	for file, text := range map[string]string{"/etc/crypto-policies/config": "FIPS\n", "/boot/grub/grub.cfg": "linux /vmlinuz fips=1 quiet\n"} {
		require.Equal(t, 1, plans(), "both have to be there")
		require.NoError(t, h.Files.WriteFile(file, []byte(text), host.Attributes{Mode: 0o644}))
	}
	require.Zero(t, plans())
}

// The image's settings let the kubelet start with swap, unless the user's differ.
func TestSwapOfNodes(t *testing.T) {
	s := Spec{Swap: "zram", NodeDefaults: NodeDefaults{KubeletDefaults: "memorySwap: {swapBehavior: NoSwap}\nmaxPods: 50"}}
	spec, err := s.nodeSpec()
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"kubelet": map[string]any{"config": map[string]any{
		"failSwapOn": false, "maxPods": int64(50), "memorySwap": map[string]any{"swapBehavior": "NoSwap"},
	}}}, spec)
	spec, err = Spec{Swap: "zram"}.nodeSpec()
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"kubelet": map[string]any{"config": map[string]any{
		"failSwapOn": false, "memorySwap": map[string]any{"swapBehavior": "LimitedSwap"},
	}}}, spec)
	require.EqualError(t, Spec{KubernetesVersion: "1.29.1", Swap: "zram"}.Validate(),
		`swap needs kubelet 1.30 or newer, with which pods can use swap; kubernetes_version is "1.29.1"`)
}

// The arguments reach the boot loader's configuration: through a folder, through
// one line of a file, and not at all on a machine without a boot loader.
func TestKernelArguments(t *testing.T) {
	arguments := []string{"quiet", "nvme_core.io_timeout=4294967295"}
	n := nodeOf(t, "debian", Spec{KernelArguments: arguments})
	h := bare(t, n.distro)
	has := func(config string) bool {
		t.Helper()
		require.NoError(t, h.Files.WriteFile("/boot/grub/grub.cfg", []byte(config), host.Attributes{Mode: 0o600}))
		taken, err := n.taken(t.Context(), h, arguments)
		require.NoError(t, err)
		return taken
	}
	assert.True(t, has("\tlinux /boot/vmlinuz root=/dev/xvda1 quiet nvme_core.io_timeout=4294967295\n"))
	assert.False(t, has("\tlinux /boot/vmlinuz root=/dev/xvda1 quiet nvme_core.io_timeout=42949672955\n"))

	n = nodeOf(t, "flatcar", Spec{KernelArguments: arguments})
	require.NoError(t, h.Files.WriteFile("/oem/grub.cfg", []byte("set oem_id=\"ami\"\nset linux_append=\"$linux_append old\" # eksnode\n"), host.Attributes{Mode: 0o644}))
	require.NoError(t, settle(t, h, pick(n, "kernel-arguments")...))
	text := content(t, h, "/oem/grub.cfg")
	assert.Equal(t, "set oem_id=\"ami\"\nset linux_append=\"$linux_append quiet nvme_core.io_timeout=4294967295\" # eksnode\n", text)
}

func TestKernelArgumentsNeedABootLoader(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		n := nodeOf(t, "rhel", Spec{KernelArguments: []string{"quiet"}})
		_, err := plan.Apply(t.Context(), h, pick(n, "kernel-arguments"), nil)
		require.ErrorContains(t, err, "this machine has no grubby and does not start with its own boot loader, so kernel_arguments has no effect; remove the setting")
	})
}

// A package with a version in the spec is installed and held, and then stays as it
// is.
func TestPackageVersionsAreMissingUntilTheyAreRight(t *testing.T) {
	h, d := installedDebian(t)
	spec := Spec{KubernetesVersion: "1.34.4", PackageVersions: map[string]string{"containerd": "1.7.24-1"}}
	n := nodeFor(t, spec, d, "amd64")
	have := map[string]string{}
	for _, name := range n.packageNames() {
		have[name] = "1"
	}
	assert.Equal(t, []string{"containerd"}, n.missing(have))
	have["containerd"] = "1.7.24-1"
	assert.Empty(t, n.missing(have))
	holds, err := n.planHolds(h)
	require.NoError(t, err)
	require.Len(t, holds, 1)
	assert.Equal(t, "apt's hold of containerd", holds[0].Target)
}
