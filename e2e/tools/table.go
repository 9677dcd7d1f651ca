package tools

import (
	"cmp"
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

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

// Tool is one row of the table of tools. Its texts may contain {version}, {arch}, {major} and
// {minor}.
type Tool struct {
	// Name is the first half of NAME@VERSION and names the folder in the cache.
	Name string
	// Versions that are known to build, newest first. The first is the default for
	// a bare NAME.
	Versions []string
	// Releases is an ID in the table of package versions, which has the Versions then.
	Releases string
	// Asked is an environment variable with the default version.
	Asked string
	// Node means that the tool runs on the node, so it is built for the node's
	// architecture. Other tools run where the tests run.
	Node bool

	// Release describes the publisher's release; the zero value if there is no
	// usable one.
	Release release

	Module   string
	Packages []string // main packages below the module; "." is its root
	Tags     []string
	// Libraries are Debian's packages for building with cgo, which links them
	// statically. Empty means a build without cgo.
	Libraries []string
	// Waits means that the program waits for others most of the time. It is compiled
	// without optimizations, with two thirds of the processor time and half the memory.
	Waits bool
	// Tests means that the program consists of a package's tests, which run a suite
	// of their own. There is one package then.
	Tests bool
	// Variables are set through the linker (-X).
	Variables []string
	// Archive, when set, is the one file of the built programs.
	Archive *archive
	// Output is the file's name in the cache folder; the tool's name when empty.
	Output string
	Probe  probe
}

// probe is the check of a built program's version: its output with these
// arguments must contain Want.
type probe struct {
	Arguments []string
	Want      string
}

//go:embed table.yaml
var tableFile []byte

// Table lists all tools. The versions of a node's programs come from the table of package
// versions, the others are only here.
func Table() []Tool {
	var table struct {
		Kubernetes, PackerPlugin Tool // what several tools have
		Tools                    []Tool
	}
	decode(tableFile, &table)
	all := make([]Tool, len(table.Tools))
	for i, tool := range table.Tools {
		named := strings.NewReplacer("{name}", tool.Name, "{soci}", sociVersion, "{benchmark}", KubeBenchBenchmark)
		text, _ := yaml.Marshal(tool) // what was decoded can be encoded
		decode([]byte(named.Replace(string(text))), &all[i])
		all[i].complete()
	}
	return all
}

func decode(text []byte, into any) {
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		panic(err) // the file is part of the program
	}
}

// complete sets the versions of other tables, and defaults.
func (t *Tool) complete() {
	t.Output = cmp.Or(t.Output, t.Name)
	if t.Releases != "" {
		t.Versions = lifecycle.Releases(t.Releases)
	}
	if version := os.Getenv(t.Asked); slices.Contains(t.Versions, version) {
		others := slices.DeleteFunc(slices.Clone(t.Versions), func(v string) bool { return v == version })
		t.Versions = slices.Insert(others, 0, version)
	}
}

// filled inserts version and architecture into a text.
func filled(text, version, arch string) string {
	parts := append(strings.Split(version, "."), "", "")
	return strings.NewReplacer("{version}", version, "{arch}", arch,
		"{major}", parts[0], "{minor}", parts[1]).Replace(text)
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
