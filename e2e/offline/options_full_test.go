//go:build e2e && full

package offline_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine/aptmirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/shape"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// release is the version of the kernels that stand in for real ones.
const release = "6.12.1"

// builtin are the modules that every node needs.
const builtin = `overlay veth br_netfilter nf_conntrack nf_nat nft_compat xt_MASQUERADE xt_addrtype xt_comment
xt_connmark xt_conntrack xt_mark xt_nat xt_statistic xt_tcpudp`

// debian is a shape whose repository can have more packages than Debian's own.
func debian() shape.Shape {
	s := shape.All()["ubuntu"]
	s.ID, s.User = "debian", "admin"
	s.Packages = slices.DeleteFunc(s.Packages, func(p string) bool { return p == "chrony" || p == "snapd" })
	s.Packages = append(s.Packages, "systemd-timesyncd")
	s.Enabled = slices.DeleteFunc(s.Enabled, func(u string) bool {
		return strings.Contains(u, "chrony") || strings.Contains(u, "snap")
	})
	s.Files = slices.DeleteFunc(s.Files, func(f base.File) bool { return strings.Contains(f.Path, "snap") })
	s.OSRelease = `PRETTY_NAME="Debian GNU/Linux 13 (trixie)"
NAME="Debian GNU/Linux"
VERSION_ID="13"
VERSION_CODENAME=trixie
ID=debian
`
	delete(s.Links, "/snap/core22/current")
	return s
}

func program(path, text string) base.File { return base.File{Path: path, Content: text, Mode: 0o755} }

// builds stands in for the real dkms, which other tests run: it makes a module of each source.
const builds = `#!/bin/sh -e
[ "$1 $2" = "autoinstall -k" ]
cd /usr/lib/modules/$3
mkdir -p updates/dkms
for name in $(cat /usr/src/*/dkms.conf); do touch updates/dkms/$name.ko; done
for module in $(find -name '*.ko'); do echo "${module#./}:"; done > modules.dep
`

// standIns are the packages of options that Debian has not.
func standIns(d distros.Distro, kernel string) (all []shape.Made) {
	add := func(name, version string, files ...base.File) {
		all = append(all, shape.Made{Name: name, Version: version, Files: files})
	}
	for _, agent := range []string{"amazon-ssm-agent", "amazon-cloudwatch-agent", "node-problem-detector"} {
		add(agent, "1", base.File{Path: "/usr/lib/systemd/system/" + agent + ".service", Mode: 0o644,
			Content: "[Service]\nExecStart=/usr/bin/sleep inf\n[Install]\nWantedBy=multi-user.target\n"})
	}
	add("soci-snapshotter", "0.12.0", program("/usr/bin/soci-snapshotter-grpc", "#!/bin/sh\n"))
	add("nvidia-container-toolkit", "1.18.0", program("/usr/bin/nvidia-ctk", "#!/bin/sh\n"))
	add("rdma-core", "59")
	add("dkms", "3.2", program("/usr/sbin/dkms", builds))
	kernelFile := func(name, text string) base.File {
		return base.File{Path: "/usr/lib/modules/" + release + "/" + name, Content: text, Mode: 0o644}
	}
	modules := []base.File{kernelFile("modules.order", ""),
		kernelFile("modules.builtin", "kernel/"+strings.Join(strings.Fields(builtin), ".ko\nkernel/")+".ko\n")}
	if d.Can(distros.EFA) && !d.Can(distros.EFAModule) { // its kernels have the module
		modules = append(modules, kernelFile("updates/dkms/efa.ko", ""), kernelFile("modules.dep", "updates/dkms/efa.ko:\n"))
	}
	add(kernel, release, modules...)
	source := func(name, version, module string) {
		add(name, version, base.File{Path: "/usr/src/" + module + "/dkms.conf", Content: module + "\n", Mode: 0o644})
		all[len(all)-1].Needs = []string{"dkms"}
	}
	pm := d.PackageManager
	add(pm.Kernels().Named([]string{pm.Kernels().Headers}, kernel)[0], release)
	if d.Can(distros.Neuron) {
		source("aws-neuronx-dkms", "2.27", "neuron")
		add("aws-neuronx-tools", "2.27")
	}
	if d.Can(distros.EFAModule) {
		source("efa", "3.0", "efa")
	}
	for i, name := range append(d.NVIDIA.Packages(true, "580", kernel, pm), "nvidia-driver-pinning-580") {
		switch {
		case slices.ContainsFunc(all, func(m shape.Made) bool { return m.Name == name }):
		case i == 0:
			source(name, "580.95.05", "nvidia")
		default:
			add(name, "580.95.05")
		}
	}
	return all
}

// TestOptionsOnShapes gives a root every option that its distribution has, with the package
// manager of its own. Packages of kernels, drivers and agents stand in for real ones. Each
// option shows in the root, the audit finds nothing, and later runs change nothing.
func TestOptionsOnShapes(t *testing.T) {
	for id, kernel := range map[string]string{
		"amazonlinux2023": "kernel6.12", "arch": "linux-lts", "debian": "linux-image-cloud-amd64", "fedora": "kernel",
		"ubuntu": "linux-aws",
	} {
		t.Run(id, func(t *testing.T) {
			s := shape.All()[id]
			if id == "debian" {
				s = debian()
			}
			d, err := distros.ByID(s.ID)
			require.NoError(t, err)
			s.Made = standIns(d, kernel)
			if d.Can(distros.Swap) && id != "fedora" { // whose base has it
				s.Offered = append(s.Offered, "systemd-zram-generator")
			}
			if id == "arch" {
				s.Names["systemd-zram-generator"] = "zram-generator"
			}
			b := openOn(t, lab.System{Shape: &s})
			b.hasOptions(t, d, b.allOptions(t, d, kernel))
		})
	}
}

// allOptions is a spec with every option that a distribution has.
func (b *bench) allOptions(t *testing.T, d distros.Distro, kernel string) map[string]any {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	spec := map[string]any{
		"kubernetes_version": lab.Kubelet, "source_url": b.options[3], "allow_http": true, "containerd": "2.3",
		"agents": []string{"ssm", "cloudwatch", "node-problem-detector"}, "soci": true, "kernel": kernel, "efa": true,
		"nvidia": "open-580", "neuron": true, "swap": "zram", "hardening": []string{"tmp-noexec", "umask", "audit"},
		"ntp_servers": []string{"time.example"}, "dns_servers": []string{"192.0.2.53"}, "packages": []string{"socat"},
		"sysctls":          map[string]string{"vm.max_map_count": "524288"},
		"ca_certificates":  map[string]string{"example": string(authority)},
		"registry_mirrors": map[string]string{"docker.io": "https://mirror.example"}, "max_concurrent_downloads": 8,
		"keep_unpacked_layers": true, "kubelet_defaults": "containerLogMaxSize: 50Mi\n",
		"node_proxy": "http://proxy.example:3128", "node_no_proxy": []string{".internal.example"},
	}
	address := "http://" + aptmirror.Host + ":" + shape.Port + "/again/../" // for apt, which knows the other with its key
	key := filepath.Join(b.Root, "etc/pki/rpm-gpg/RPM-GPG-KEY-packager")
	text := ""
	switch d.PackageManager.Name() {
	case "apt":
		key = filepath.Join(t.TempDir(), "key.asc")
		ring := filepath.Join(b.Root, "usr/share/keyrings/ubuntu-archive-keyring.gpg")
		testkit.Run(t, "gpg", "--no-default-keyring", "--keyring", ring, "--armor", "--output", key, "--export")
		text = "Types: deb\nURIs: " + address + "\nSuites: noble\nComponents: main\n"
	case "pacman": // the name of a repository is that of its file
	default:
		text = "[again]\nname=again\nbaseurl=" + address + "\n"
	}
	if text != "" {
		spec["repositories"] = map[string]string{"again": text}
		spec["repository_keys"] = map[string]string{"again": testkit.Content(t, key)}
	}
	for field, can := range map[string]bool{
		"swap": d.Can(distros.Swap), "neuron": d.Can(distros.Neuron),
		"nvidia": d.ID != "amazonlinux2023", // its stream is a module of dnf
	} {
		if !can {
			delete(spec, field)
		}
	}
	return spec
}

// hasOptions provisions the root by a spec, and requires what shows each of its options.
func (b *bench) hasOptions(t *testing.T, d distros.Distro, spec map[string]any) {
	text, err := yaml.Marshal(spec)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "spec.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	provision := func() string {
		args := []string{lab.Eksnode(t), "provision", "--root", b.root, "--spec", file}
		return testkit.Output(t, b.Resolving(args))
	}
	t.Log(provision())
	modules := "usr/lib/modules/" + release + "/"
	for field, shown := range map[string][]string{
		"agents": {"etc/systemd/system/multi-user.target.wants/amazon-ssm-agent.service",
			"etc/systemd/system/multi-user.target.wants/amazon-cloudwatch-agent.service",
			"etc/systemd/system/multi-user.target.wants/node-problem-detector.service"},
		"soci":            {"usr/bin/soci-snapshotter-grpc", "etc/systemd/system/soci-snapshotter.service"},
		"kernel":          {modules + "modules.order"},
		"efa":             {modules + "updates/dkms/efa.ko", "etc/modules-load.d/eksnode-efa.conf"},
		"nvidia":          {modules + "updates/dkms/nvidia.ko", "etc/modprobe.d/eksnode-nvidia.conf"},
		"neuron":          {modules + "updates/dkms/neuron.ko"},
		"ca_certificates": {d.CAAnchors + "/*example*"},
	} {
		for _, path := range shown {
			if spec[field] != nil {
				assert.NotEmpty(t, testkit.Glob(t, filepath.Join(b.root, path)), "%s: %s", field, path)
			}
		}
	}
	assert.Empty(t, testkit.Glob(t, filepath.Join(b.root, "etc/*/*/again*")), "the repository is for the build alone")
	assert.Contains(t, provision(), "DONE: 0 of ")
	for _, args := range [][]string{{"scrub", "--yes"}, {"audit"}, {"audit", "--rules", "join-breakers"}} {
		b.must(t, args...)
	}
	assert.Contains(t, provision(), "DONE: 0 of ")
}
