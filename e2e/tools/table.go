package tools

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/lifecycle"
)

// Names of the tools, as in `go run ./e2e/tools/cmd/tools NAME@VERSION`.
const (
	NamePacker             = "packer"
	NamePackerAmazon       = "packer-plugin-amazon"
	NamePackerQEMU         = "packer-plugin-qemu"
	NameKubelet            = "kubelet"
	NameCredentialProvider = "ecr-credential-provider"
	NameCNIPlugins         = "cni-plugins"
	NameContainerd         = "containerd"
	NameRunc               = "runc"
	NameAPIServer          = "kube-apiserver"
	NameControllerManager  = "kube-controller-manager"
	NameScheduler          = "kube-scheduler"
	NameKubectl            = "kubectl"
	NameKubeadm            = "kubeadm"
	NameEtcd               = "etcd"
	NameKubeBench          = "kube-bench"
	NameSOCI               = "soci-snapshotter-grpc"
	NameCritest            = "critest"
	NameToxiproxy          = "toxiproxy-server"
	NameGitleaks           = "gitleaks"
)

// The library module of the SOCI snapshotter, whose program is a module of its own.
const (
	sociModule  = "github.com/awslabs/soci-snapshotter"
	sociVersion = "0.16.1"
)

// Tool is one row of the table of tools.
type Tool struct {
	// Name is the first half of NAME@VERSION and names the folder in the cache.
	Name string
	// Versions that are known to build, newest first. The first is the default for
	// a bare NAME.
	Versions []string
	// Node means that the tool runs on the node, so it is built for the node's
	// architecture. Other tools run where the tests run.
	Node bool

	// release describes the publisher's release; the zero value if there is no
	// usable one.
	release release

	module   string
	packages []string // main packages below the module; "." is its root
	tags     []string
	// libraries are Debian's packages for building with cgo, which links them
	// statically. Empty means a build without cgo.
	libraries []string
	// waits means that the program waits for others most of the time. It is compiled
	// without optimizations, with two thirds of the processor time and half the memory.
	waits bool
	// tests means that the program consists of a package's tests, which run a suite
	// of their own. There is one package then.
	tests bool
	// variables are set through the linker (-X); each value is a function of the
	// version without its "v".
	variables []variable
	// archive, when set, is the one file of the built programs.
	archive *archive
	// output is the file's name in the cache folder.
	output func(version, arch string) string
	probe  probe
}

type variable struct {
	name  string
	value func(version string) string
}

// probe is the check of a built program's version: its output with these
// arguments must contain want(version).
type probe struct {
	arguments []string
	want      func(version string) string
}

// Table lists all tools. The versions of a node's programs come from the table of package
// versions, the others are only here.
func Table() []Tool {
	return []Tool{
		{
			Name:     NamePacker,
			Versions: asked("PACKER", []string{"1.16.0", "1.12.0"}),
			release: release{
				url: "https://releases.hashicorp.com/packer/{version}/packer_{version}_linux_{arch}.zip",
				sum: "https://releases.hashicorp.com/packer/{version}/packer_{version}_SHA256SUMS", form: asset.Listed, member: "packer",
			},
			module:   "github.com/hashicorp/packer",
			packages: []string{"."},
			waits:    true,
			output:   named("packer"),
			probe:    probe{[]string{"--version"}, format("Packer v%s")},
		},
		packerPlugin(NamePackerAmazon, "1.8.2",
			"https://releases.hashicorp.com/packer-plugin-amazon/{version}/packer-plugin-amazon_{version}_linux_{arch}.zip",
			"https://releases.hashicorp.com/packer-plugin-amazon/{version}/packer-plugin-amazon_{version}_SHA256SUMS"),
		packerPlugin(NamePackerQEMU, "1.0.9",
			"https://github.com/hashicorp/packer-plugin-qemu/releases/download/v{version}/packer-plugin-qemu_v{version}_x5.0_linux_{arch}.zip",
			"https://github.com/hashicorp/packer-plugin-qemu/releases/download/v{version}/packer-plugin-qemu_v{version}_SHA256SUMS"),
		kubernetes(NameKubelet, true, probe{[]string{"--version"}, format("Kubernetes v%s")}),
		{
			Name:      NameCredentialProvider,
			Versions:  lifecycle.Releases(NameCredentialProvider),
			Node:      true,
			module:    "k8s.io/cloud-provider-aws",
			packages:  []string{"cmd/ecr-credential-provider"},
			variables: []variable{{"main.gitVersion", format("v%s")}},
			output:    named("ecr-credential-provider"),
			probe:     probe{[]string{"--version"}, format("version v%s")},
		},
		{
			Name:     NameCNIPlugins,
			Versions: lifecycle.Releases(NameCNIPlugins),
			Node:     true,
			release: release{
				url:  "https://github.com/containernetworking/plugins/releases/download/v{version}/cni-plugins-linux-{arch}-v{version}.tgz",
				sum:  "https://github.com/containernetworking/plugins/releases/download/v{version}/cni-plugins-linux-{arch}-v{version}.tgz.sha256",
				form: asset.Listed,
			},
			module: "github.com/containernetworking/plugins",
			// The plugins of upstream's build_linux.sh: all but "windows" and
			// "sample".
			packages: prefixed("plugins/",
				"ipam/dhcp", "ipam/host-local", "ipam/static",
				"main/bridge", "main/dummy", "main/host-device", "main/ipvlan", "main/loopback",
				"main/macvlan", "main/ptp", "main/tap", "main/vlan",
				"meta/bandwidth", "meta/firewall", "meta/portmap", "meta/sbr", "meta/tuning", "meta/vrf"),
			variables: []variable{
				{"github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion", format("v%s")},
			},
			archive: &archive{files: []string{"LICENSE", "README.md"}},
			output: func(version, arch string) string {
				return fmt.Sprintf("cni-plugins-linux-%s-v%s.tgz", arch, version)
			},
			// Without CNI_COMMAND in its environment a plugin prints its own name.
			probe: probe{nil, format("plugin v%s")},
		},
		{
			Name:     NameContainerd,
			Versions: lifecycle.Releases(NameContainerd),
			Node:     true,
			release: release{
				url:  "https://github.com/containerd/containerd/releases/download/v{version}/containerd-static-{version}-linux-{arch}.tar.gz",
				sum:  "https://github.com/containerd/containerd/releases/download/v{version}/containerd-static-{version}-linux-{arch}.tar.gz.sha256sum",
				form: asset.Listed,
			},
			module:    "github.com/containerd/containerd/v2",
			packages:  prefixed("cmd/", "containerd", "containerd-shim-runc-v2", "ctr"), // not containerd-stress, which raises limits at start
			tags:      []string{"urfave_cli_no_docs", "static_build"},                   // as upstream's static build
			variables: []variable{{"github.com/containerd/containerd/v2/version.Version", format("v%s")}},
			archive:   &archive{programs: "bin/"},
			output: func(version, arch string) string {
				return fmt.Sprintf("containerd-static-%s-linux-%s.tar.gz", version, arch)
			},
			probe: probe{[]string{"-v"}, format("v%s")},
		},
		{
			Name:     NameRunc,
			Versions: lifecycle.Releases(NameRunc),
			Node:     true,
			release: release{
				url:  "https://github.com/opencontainers/runc/releases/download/v{version}/runc.{arch}",
				sum:  "https://github.com/opencontainers/runc/releases/download/v{version}/runc.sha256sum",
				form: asset.Listed,
			},
			module:    "github.com/opencontainers/runc",
			packages:  []string{"."},
			tags:      []string{"seccomp", "urfave_cli_no_docs", "netgo", "osusergo"}, // as upstream's static build
			libraries: []string{"gcc", "libc6-dev", "libseccomp-dev", "pkg-config"},
			output:    named("runc"),
			probe:     probe{[]string{"--version"}, format("runc version %s")},
		},
		kubernetes(NameAPIServer, false, probe{[]string{"--version"}, format("Kubernetes v%s")}),
		kubernetes(NameControllerManager, false, probe{[]string{"--version"}, format("Kubernetes v%s")}),
		kubernetes(NameScheduler, false, probe{[]string{"--version"}, format("Kubernetes v%s")}),
		kubernetes(NameKubectl, false, probe{[]string{"version", "--client"}, format("Client Version: v%s")}),
		kubernetes(NameKubeadm, true, probe{[]string{"version", "--output=short"}, format("v%s")}),
		{
			Name:     NameEtcd,
			Versions: []string{"3.6.5"},
			release: release{
				url:  "https://github.com/etcd-io/etcd/releases/download/v{version}/etcd-v{version}-linux-{arch}.tar.gz",
				sum:  "https://github.com/etcd-io/etcd/releases/download/v{version}/SHA256SUMS",
				form: asset.Listed, member: "etcd-v{version}-linux-{arch}/etcd",
			},
			module:   "go.etcd.io/etcd/server/v3",
			packages: []string{"."},
			output:   named("etcd"),
			probe:    probe{[]string{"--version"}, format("etcd Version: %s")},
		},
		{
			Name:      NameKubeBench,
			Versions:  []string{"0.15.6"},
			Node:      true,
			module:    "github.com/aquasecurity/kube-bench",
			packages:  []string{"."},
			variables: []variable{{"github.com/aquasecurity/kube-bench/cmd.KubeBenchVersion", format("v%s")}},
			archive:   &archive{files: []string{"cfg/" + KubeBenchBenchmark + "/*.yaml", "cfg/config.yaml"}},
			output:    named("kube-bench.tgz"),
			probe:     probe{[]string{"version"}, format("v%s")},
		},
		{
			Name:      NameSOCI,
			Versions:  []string{"0.0.0-20260930233240-61147fe7c929"}, // the commit of sociVersion, which tags only sociModule
			Node:      true,
			module:    sociModule + "/cmd",
			packages:  []string{"soci-snapshotter-grpc"},
			tags:      []string{"osusergo", "netgo", "static_build"}, // as upstream's static build
			libraries: []string{"gcc", "libc6-dev", "zlib1g-dev"},
			variables: []variable{{sociModule + "/version.Version", format("v" + sociVersion)}},
			output:    named(NameSOCI),
			probe:     probe{[]string{"--version"}, format("v" + sociVersion)},
		},
		{
			Name:     NameCritest,
			Versions: []string{"1.36.0"},
			Node:     true,
			release: release{
				url:  "https://github.com/kubernetes-sigs/cri-tools/releases/download/v{version}/critest-v{version}-linux-{arch}.tar.gz",
				sum:  "https://github.com/kubernetes-sigs/cri-tools/releases/download/v{version}/critest-v{version}-linux-{arch}.tar.gz.sha256",
				form: asset.Bare, member: "critest",
			},
			module:    "sigs.k8s.io/cri-tools",
			packages:  []string{"cmd/critest"},
			tests:     true,
			variables: []variable{{"sigs.k8s.io/cri-tools/pkg/version.Version", format("%s")}},
			output:    named("critest"),
			probe:     probe{[]string{"-version"}, format("critest version: %s")},
		},
		{
			Name:      NameToxiproxy,
			Versions:  []string{"2.5.0"},
			module:    "github.com/Shopify/toxiproxy/v2",
			packages:  []string{"cmd/server"},
			variables: []variable{{"github.com/Shopify/toxiproxy/v2.Version", format("%s")}},
			output:    named("toxiproxy-server"),
			probe:     probe{[]string{"-version"}, format("%s")},
		},
		{
			Name:      NameGitleaks,
			Versions:  []string{"8.30.1"},
			module:    "github.com/zricethezav/gitleaks/v8",
			packages:  []string{"."},
			variables: []variable{{"github.com/zricethezav/gitleaks/v8/version.Version", format("%s")}},
			output:    named("gitleaks"),
			probe:     probe{[]string{"version"}, format("%s")},
		},
	}
}

func packerPlugin(name, version, url, sum string) Tool {
	module := "github.com/hashicorp/" + name
	return Tool{
		Name:     name,
		Versions: []string{version},
		release:  release{url: url, sum: sum, form: asset.Listed, member: name + "_v{version}_x5.0_linux_{arch}"},
		module:   module,
		packages: []string{"."},
		waits:    true,
		// The release version, not "-dev": `packer init` counts only releases
		// as installed, and otherwise goes online.
		variables: []variable{
			{module + "/version.Version", format("%s")}, {module + "/version.VersionPrerelease", format("")},
		},
		output: named(name),
		probe:  probe{[]string{"describe"}, format(`"version":"%s"`)},
	}
}

// kubernetes returns the row of one of Kubernetes' own programs.
func kubernetes(name string, node bool, probe probe) Tool {
	return Tool{
		Name:     name,
		Versions: asked("KUBERNETES", lifecycle.Releases(NameKubelet)),
		Node:     node,
		release: release{
			url: "https://dl.k8s.io/release/v{version}/bin/linux/{arch}/" + name,
			sum: "https://dl.k8s.io/release/v{version}/bin/linux/{arch}/" + name + ".sha256", form: asset.Bare,
		},
		module:    "k8s.io/kubernetes",
		packages:  []string{"cmd/" + name},
		tags:      []string{"selinux", "notest", "grpcnotrace"}, // as upstream's release build
		variables: kubernetesVersion(),
		output:    named(name),
		probe:     probe,
	}
}

// asked moves the version in an environment variable to the front, as the default.
func asked(variable string, all []string) []string {
	if version := os.Getenv(variable); slices.Contains(all, version) {
		all = slices.Concat([]string{version}, slices.DeleteFunc(all, func(v string) bool { return v == version }))
	}
	return all
}

// Find returns the table's row for name, and version or, if version is empty,
// the newest version of the row. An unknown name or version is an error that
// lists the known ones.
func Find(name, version string) (Tool, string, error) {
	var names []string
	for _, tool := range Table() {
		if tool.Name != name {
			names = append(names, tool.Name)
			continue
		}
		if version == "" {
			return tool, tool.Versions[0], nil
		}
		if !slices.Contains(tool.Versions, version) {
			return Tool{}, "", fmt.Errorf("finding %s %s: unknown version; must be one of %s",
				name, version, strings.Join(tool.Versions, ", "))
		}
		return tool, version, nil
	}
	return Tool{}, "", fmt.Errorf("finding %q: unknown tool; must be one of %s", name, strings.Join(names, ", "))
}

// kubernetesVersion lists the variables behind `kubelet --version` and the user
// agent, in both copies that Kubernetes keeps of them.
func kubernetesVersion() []variable {
	var all []variable
	for _, where := range []string{"k8s.io/component-base/version.", "k8s.io/client-go/pkg/version."} {
		all = append(all,
			variable{where + "gitVersion", format("v%s")},
			variable{where + "gitMajor", func(version string) string { return versionPart(version, 0) }},
			variable{where + "gitMinor", func(version string) string { return versionPart(version, 1) }},
		)
	}
	return all
}

func versionPart(version string, part int) string {
	parts := strings.Split(version, ".")
	if part >= len(parts) {
		return ""
	}
	return parts[part]
}

// format returns a function that inserts the version into pattern, which may
// have no %s.
func format(pattern string) func(version string) string {
	return func(version string) string { return strings.ReplaceAll(pattern, "%s", version) }
}

func named(file string) func(version, arch string) string {
	return func(string, string) string { return file }
}

func prefixed(prefix string, names ...string) []string {
	for i := range names {
		names[i] = prefix + names[i]
	}
	return names
}
