package render

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/pmezard/go-difflib/difflib"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/arguments"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/instance"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/machine"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
)

var update = flag.Bool("update", false, "write the golden files")

const pauseImage = "602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/pause:3.5"

func facts(kubelet, containerd string) (instance.Facts, machine.Facts) {
	k, err := machine.ParseVersion(kubelet)
	if err != nil {
		panic(err) // the texts of the tests are valid
	}
	c, err := machine.ParseVersion(containerd)
	if err != nil {
		panic(err)
	}
	return instance.Facts{
			ID: "i-0123456789abcdef0", Type: "m5.large", Region: "eu-west-1", Zone: "eu-west-1a",
			MAC:            "02:00:00:00:00:01",
			PrivateDNSName: "ip-10-0-1-2.eu-west-1.compute.internal", Address: "10.0.1.2",
			VPCNetworks: []string{"10.0.0.0/16"},
			Domain:      "amazonaws.com", Limits: instance.Limits{ENIs: 3, IPsPerENI: 10},
		}, machine.Facts{
			Kubelet: k, Containerd: c, CPUs: 2, MemoryMiB: 7840, CredentialProvider: true, Command: "/usr/bin/eksnode",
			Runc: "/usr/sbin/runc",
		}
}

// described is a case: the user data and the facts. The name says which contract.
type described struct {
	Kubelet    string `json:"kubelet"`
	Containerd string `json:"containerd"`
	// Config is a NodeConfig's spec in YAML without a cluster, and Cluster has changes of
	// the cluster. Args follow those of the usual call of bootstrap.sh.
	Config  string         `json:"config"`
	Cluster map[string]any `json:"cluster"`
	Args    []string       `json:"args"`
	// Instance and Machine are changes of the facts, and Pause is another pause image.
	Instance map[string]any `json:"instance"`
	Machine  map[string]any `json:"machine"`
	Pause    string         `json:"pause"`
	// KubeletConfig and ContainerdConfig are templates that a user edited.
	KubeletConfig    string `json:"kubelet_config"`
	ContainerdConfig string `json:"containerd_config"`
	script           bool
}

// change sets the fields of a value that a case has.
func change(t *testing.T, value any, fields map[string]any) {
	t.Helper()
	text, err := json.Marshal(fields)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, value))
}

func (d described) node(t *testing.T) *node.Node {
	t.Helper()
	i, m := facts(d.Kubelet, d.Containerd)
	change(t, &i, d.Instance)
	change(t, &m, d.Machine)
	pause := cmp.Or(d.Pause, pauseImage)
	if !d.script {
		c, err := nodeconfig.Decode([]byte("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n" + cluster +
			"  " + strings.ReplaceAll(d.Config, "\n", "\n  ")))
		require.NoError(t, err)
		change(t, &c.Spec.Cluster, d.Cluster)
		require.NoError(t, c.Validate())
		n, _, err := node.FromNodeConfig(c, i, m, pause)
		require.NoError(t, err)
		return n
	}
	a, err := arguments.Parse(append(slices.Clone(call), d.Args...))
	require.NoError(t, err)
	require.NoError(t, a.Validate())
	called := node.Call{Arguments: a, Instance: i, Machine: m, PauseImage: pause}
	called.KubeletConfig = template(t, templates.KubeletConfig)
	if d.KubeletConfig != "" {
		called.KubeletConfig, called.ContainerdConfig = []byte(d.KubeletConfig), []byte(d.ContainerdConfig)
	}
	n, _, err := called.Node()
	require.NoError(t, err)
	return n
}

func template(t *testing.T, name string) []byte {
	t.Helper()
	for _, tmpl := range templates.All() {
		if tmpl.Path == name {
			return tmpl.Content
		}
	}
	t.Fatal("no template ", name)
	return nil
}

const cluster = `  cluster:
    name: my-cluster
    apiServerEndpoint: https://ABC.gr7.eu-west-1.eks.amazonaws.com
    certificateAuthority: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCmNhCi0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K
    cidr: 172.20.0.0/16
`

var call = []string{
	"my-cluster", "--apiserver-endpoint", "https://ABC.gr7.eu-west-1.eks.amazonaws.com",
	"--b64-cluster-ca", "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCmNhCi0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K",
}

const casesFile = "testdata/cases.yaml"

// matrix returns all cases: user data × versions × address families.
func matrix(t *testing.T) map[string]described {
	t.Helper()
	var all map[string]described
	_, err := strictjson.ReadYAML(casesFile, []byte(testkit.Content(t, casesFile)), &all)
	require.NoError(t, err)
	for _, v := range []string{"1.24", "1.25", "1.26", "1.27", "1.28", "1.29", "1.30", "1.31", "1.32", "1.33", "1.34",
		"1.35", "1.36"} {
		containerd := map[bool]string{true: "1.7.27", false: "2.1.4"}[v < "1.33"]
		if v >= "1.36" {
			containerd = "2.3.1"
		}
		all["nodeconfig-"+v] = described{Kubelet: v + ".1", Containerd: containerd}
		all["bootstrap-"+v] = described{Kubelet: v + ".1", Containerd: containerd}
	}
	for name, d := range all {
		d.script = strings.HasPrefix(name, "bootstrap-")
		all[name] = d
	}
	return all
}

func archive(t *testing.T, n *node.Node) []byte {
	t.Helper()
	files, err := Files(n)
	require.NoError(t, err)
	var a txtar.Archive
	for _, f := range files {
		content := f.Content
		// These files are the same in all cases that do not change them.
		if f.Path == BaseRuntimeSpec && len(n.Containerd.BaseRuntimeSpec) == 0 {
			content = []byte("(the built-in one)\n")
		}
		a.Files = append(a.Files, txtar.File{Name: f.Path, Data: content})
	}
	return txtar.Format(&a)
}

func TestGoldenFiles(t *testing.T) {
	known := map[string]bool{casesFile: true}
	for name, d := range matrix(t) {
		t.Run(name, func(t *testing.T) {
			got := archive(t, d.node(t))
			golden, text := inGolden(t, name, got)
			known[golden] = true
			if *update {
				require.NoError(t, os.WriteFile(golden, text, 0o644))
			}
			assert.Equal(t, testkit.Content(t, golden), string(text))
			for range 5 {
				assert.Equal(t, string(got), string(archive(t, d.node(t))),
					"the same input must result in the same bytes")
			}
		})
	}
	all := testkit.Glob(t, "testdata/*")
	for _, name := range all {
		assert.True(t, known[name], "%s belongs to no case", name)
	}
}

// inGolden returns the path and the text of a case's golden file: all files for the
// base case of a contract, and the difference from the base for other cases.
func inGolden(t *testing.T, name string, got []byte) (string, []byte) {
	t.Helper()
	contract, _, _ := strings.Cut(name, "-")
	base := contract + "-1.34"
	if name == base {
		return filepath.Join("testdata", name+".txtar"), got
	}
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines(string(archive(t, matrix(t)[base].node(t)))), FromFile: base,
		B: difflib.SplitLines(string(got)), ToFile: name, Context: 1,
	})
	require.NoError(t, err)
	return filepath.Join("testdata", name+".diff"), []byte(text)
}

// The rendered files are valid for the libraries with which the programs parse them.
// Registry passwords, proxies with a password and headers are for root alone. The
// resolver has a user of its own.
func TestFilesAreWellFormed(t *testing.T) {
	secret := map[string]int{}
	for name, d := range matrix(t) {
		t.Run(name, func(t *testing.T) {
			files, err := Files(d.node(t))
			require.NoError(t, err)
			seen := map[string]bool{}
			for _, f := range files {
				assert.False(t, seen[f.Path], "%s is written twice", f.Path)
				seen[f.Path] = true
				var into map[string]any
				switch filepath.Ext(f.Path) {
				case ".json":
					require.NoError(t, json.Unmarshal(f.Content, &into), f.Path)
				case ".toml":
					require.NoError(t, toml.Unmarshal(f.Content, &into), f.Path)
				}
				if f.Path == Kubeconfig || f.Path == BootstrapKubeconfig {
					require.NoError(t, yaml.Unmarshal(f.Content, &into))
				}
				// Amazon's nodeadm ends its JSON files without a newline.
				assert.Equal(t, filepath.Ext(f.Path) != ".json" && f.Path != KubeletDropIn,
					strings.HasSuffix(string(f.Content), "\n"), f.Path)
				assert.NotEmpty(t, f.Why)
				assert.NotEmpty(t, f.Of)
				mode := fs.FileMode(0o644)
				if f.Path == ContainerdConfig || f.Path == SystemEnvironment ||
					strings.HasSuffix(f.Path, "/environment.conf") ||
					strings.HasPrefix(f.Why, "the kubelet's configuration") || f.Path == KubeletDropIn {
					mode = 0o600
					secret[f.Why]++
				}
				assert.Equal(t, mode, f.Mode, f.Path)
			}
		})
	}
	assert.GreaterOrEqual(t, len(secret), 4, "%v", secret)
}

func TestOldContainerdRefusesNewerConfiguration(t *testing.T) {
	for config, version := range map[string]int{
		"[plugins.'io.containerd.cri.v1.images']\nx = 1": 3, "version = 3": 3, "version = 4": 4,
	} {
		i, m := facts("1.34.0", "1.7.27")
		n := &node.Node{Instance: i, Machine: m, Containerd: node.Containerd{Config: nodeconfig.TOML(config)}}
		_, err := Files(n)
		assert.EqualError(t, err, fmt.Sprintf("writing containerd's configuration: spec.containerd.config has version "+
			"%d, which containerd 1.7.27 does not support; write the configuration in version 2, with "+
			"plugins.\"io.containerd.grpc.v1.cri\"", version))
	}
}

// The values of amazon-eks-ami's own tests.
func TestReservedCPU(t *testing.T) {
	for cpus, want := range map[int]int{1: 60, 2: 70, 3: 75, 4: 80, 8: 90, 16: 110, 48: 190, 96: 310, 192: 550} {
		assert.Equal(t, want, reservedCPU(cpus), cpus)
	}
}
