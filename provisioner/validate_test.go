package provisioner

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/e2e/livetest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

func TestAcceptedSpecs(t *testing.T) {
	for name, spec := range map[string]Spec{
		"the least":              {KubernetesVersion: "1.34.4"},
		"the oldest, the newest": {KubernetesVersion: "1.24.0"},
		"a pre-release":          {KubernetesVersion: "1.37.0-rc.1"},
		"everything": {
			Distro: "debian", KubernetesVersion: "1.34.4", SourceURL: "https://me:secret@mirror.example:8443/a/b",
			Versions:  map[string]string{"cni-plugins": "1.6.2", "ecr-credential-provider": "1.31.7"},
			Checksums: map[string]string{"kubelet": strings.Repeat("aB", 32)},
			Packages:  []string{"chrony", "libstdc++6", "NetworkManager", "python3.11"},
			Sysctls:   map[string]string{"vm.max_map_count": "262144", "net.ipv4.conf.eth0/100.rp_filter": "2", "kernel.core_pattern": "|/bin/false %p"},
		},
	} {
		t.Run(name, func(t *testing.T) { require.NoError(t, spec.Validate()) })
	}
}

func TestRefusedSpecs(t *testing.T) {
	known := strings.NewReplacer("{distributions}", strings.Join(distros.IDs(), ", "),
		"{assets}", strings.Join(asset.IDs(), ", "))
	var rows []struct {
		Name, Release, Error string
		Spec                 json.RawMessage
	}
	require.NoError(t, yaml.UnmarshalStrict([]byte(testkit.Content(t, "testdata/refused.yaml")), &rows))
	for _, r := range rows {
		t.Run(cmp.Or(r.Name, r.Error), func(t *testing.T) {
			spec := Spec{KubernetesVersion: "1.34.4"}
			require.NoError(t, json.Unmarshal(r.Spec, &spec))
			err := spec.Validate()
			if r.Release != "" {
				_, err = Steps(spec, releaseOf(t, r.Release), Inputs{Arch: "amd64"})
			}
			require.EqualError(t, err, known.Replace(r.Error))
		})
	}
}

// Every node's own settings, and settings with good reasons, are accepted.
func TestAcceptedSysctls(t *testing.T) {
	all := map[string]string{
		"net.core.somaxconn": "4096", "vm.max_map_count": "262144", "net.ipv4.conf.all.rp_filter": "1",
		"net.ipv6.conf.all.forwarding": "0", "net.ipv6.conf.all.disable_ipv6": "1",
		"net.ipv4.tcp_rmem": "4096\t87380  6291456", "net.ipv4.ip_local_port_range": "1024 65535",
		"kernel.panic": "0xA", "user.max_user_namespaces": "0",
		"net.netfilter.nf_conntrack_max": "0", "kernel.core_pattern": "|/bin/false %p",
		"net.ipv4.tcp_congestion_control": "bbr", "fs.file-max": "9223372036854775807",
		"net.ipv4.ip_local_reserved_ports": "2703,8080,9808-9809,10200-10300,61678-61679",
		"kernel.perf_event_paranoid":       "-1", "made.up": "whatever", "vm.nr_hugepages": "0",
	}
	require.NoError(t, Spec{KubernetesVersion: "1.34.4", Sysctls: all}.Validate())
	require.NoError(t, Spec{KubernetesVersion: "1.34.4", Sysctls: nodeSysctls()}.Validate())
	for name, value := range nodeSysctls() {
		assert.NoError(t, checkParameter(name, value), name)
	}
	for _, n := range refusals().Parameters {
		_, err := n.read(strings.Repeat(fmt.Sprintf("%d ", n.High), n.Count))
		require.NoError(t, err, n.Names)
		assert.Less(t, n.Low, n.High, n.Names)
	}
	for _, n := range refusals().Needs {
		for _, name := range n.Names {
			plain := strings.ReplaceAll(name, "*", "all")
			assert.Error(t, checkParameter(plain, "no number"), "%s has no row of parameters", name)
			assert.NoError(t, checkParameter(plain, fmt.Sprint(n.Least)), name)
		}
	}
}

func TestAcceptedKernelArguments(t *testing.T) {
	require.NoError(t, Spec{KubernetesVersion: "1.34.4", KernelArguments: []string{
		"quiet", "splash", "systemd.zram=0", "ro", "rw", "console=ttyS0,115200n8", "nomodeset",
		"nvme_core.io_timeout=4294967295", "net.ifnames=0", "cgroup_no_v1=all", "cgroup_enable=memory", "swapaccount=1",
		"cgroup_disable=pressure", "ipv6.disable=1", "modprobe.blacklist=nouveau", "systemd.unit=multi-user.target",
		"systemd.unified_cgroup_hierarchy=1", "selinux=1", "audit=0", "fips=1",
		"init=/usr/lib/systemd/systemd", "sysctl.vm.swappiness=1", "hugepages=64", "rd.driver.blacklist=nouveau",
		"systemd.legacy_systemd_cgroup_controller=0",
	}}.Validate())
}

func TestRefusedPackages(t *testing.T) {
	packages := refusals().Packages
	for _, name := range slices.Concat(show.Each(packages, func(m misfit) []string { return m.Names })...) {
		want := fmt.Sprintf("%q contradicts what a node needs: %s", name, misfits(name))
		require.EqualError(t, Spec{KubernetesVersion: "1.34.4", Packages: []string{"htop", name}}.Validate(),
			"packages: "+want)
		require.EqualError(t, Spec{KubernetesVersion: "1.34.4",
			PackageVersions: map[string]string{name: "1"}}.Validate(), "package_versions: "+want)
	}
	for _, d := range distros.All() { // packages that a distribution itself installs are accepted
		for _, name := range d.AllPackages() {
			assert.NoError(t, checkPackage("packages", name), d.ID)
		}
	}
}

// The error about an unknown kernel has those of the repositories, by the real apt.
func TestAnUnknownKernelIsAnErrorWithTheKnownOnes(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		n := nodeOf(t, "debian", Spec{Kernel: "linux-image-cloudy"})
		err := n.install(t.Context(), h, []string{"linux-image-cloudy"})
		require.ErrorContains(t, err,
			`kernel: "linux-image-cloudy" is no kernel of this machine's repositories; they have `)

		testkit.Write(t, "/boot/grub/grub.cfg", "")
		assert.ErrorContains(t, n.install(t.Context(), h, []string{"linux-image-cloudy"}),
			"update-grub writes /boot/grub/grub.cfg, and for that has to read the disks of a running machine")
	})
}
