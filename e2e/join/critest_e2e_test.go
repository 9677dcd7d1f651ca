//go:build e2e && full

package join_test

import (
	"archive/tar"
	_ "embed"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// critestPasses is the number of critest specs that pass. A smaller number
// means that some specs did not run.
const critestPasses = 105

// spec is a spec of critest in ginkgo's report.
type spec struct {
	ContainerHierarchyTexts    []string
	LeafNodeType, LeafNodeText string
	State                      string
	Failure                    struct{ Message string }
}

func (s spec) name() string {
	return strings.TrimPrefix(strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " "), "[k8s.io] ")
}

// withPorts adds the mapping of node ports to the pods' network, as in the VPC
// CNI's configuration.
const withPorts = `sed -i 's|"routes": \[{"dst": "0.0.0.0/0"}\]}}\]}|"routes": [{"dst": "0.0.0.0/0"}]}}, {"type": "portmap", "capabilities": {"portMappings": true}}]}|' /etc/cni/net.d/10-lab.conflist
grep -q portmap /etc/cni/net.d/10-lab.conflist
`

// critest runs the validation of container runtimes against the node's
// containerd, with the configuration of its first boot. It stops the kubelet,
// which would end pods that are not its own.
func (w *world) critest(i *instance) {
	w.t.Helper()
	i.Upload(w.t, fetch(w.t, []string{tools.NameCritest})[tools.NameCritest], "/run/critest")
	i.Sh(w.t, "systemctl stop kubelet\n"+w.serveRuntimeImages()+withPorts)
	out := i.Sh(w.t, "cd /run && TMPDIR=/var/tmp ./critest -ginkgo.json-report=/run/critest.json > critest.log 2>&1 || true\ncat critest.json || tail -40 critest.log")
	suites := testkit.JSON[[]struct{ SpecReports []spec }](w.t, out)
	require.Len(w.t, suites, 1)
	count := map[string]int{}
	exceptions := w.exceptions("critest")
	for _, s := range suites[0].SpecReports {
		benchmark := slices.ContainsFunc(s.ContainerHierarchyTexts, func(t string) bool { return strings.Contains(t, "benchmark") })
		if s.LeafNodeType != "It" || benchmark {
			continue
		}
		count[s.State]++
		if s.State != "passed" {
			exceptions.allow(s.name(), s.State+": "+s.Failure.Message)
		}
	}
	exceptions.close()
	w.step("critest: %v", count)
	assert.GreaterOrEqual(w.t, count["passed"], critestPasses)
}

// runtimeImages is testdata/runtime.yaml.
type runtimeImages struct {
	Images          []runtimeImage
	Programs, Files map[string]string
	TellsUser       string
}

// runtimeImage is an image, with all its names.
type runtimeImage struct {
	Names, Entrypoint []string
	User, Port        string
}

func (r runtimeImage) config() v1.Config {
	config := v1.Config{User: r.User, Entrypoint: r.Entrypoint, Env: idle.Env}
	switch {
	case r.Port != "":
		config.Entrypoint = []string{"/bin/nginx", "master process"}
		config.Env = append(slices.Clone(idle.Env), "PORT="+r.Port)
	case r.Entrypoint != nil:
		config.Env = nil
	default:
		config.Cmd = idle.Entrypoint
	}
	return config
}

func readRuntimeImages(t *testing.T) (all runtimeImages) {
	t.Helper()
	text := strings.ReplaceAll(testkit.Content(t, "testdata/runtime.yaml"), "{arch}", runtime.GOARCH)
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &all))
	return all
}

// runtimeFiles returns the content of all those images.
func (w *world) runtimeFiles(of runtimeImages) []lab.File {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "user")
	compile := exec.CommandContext(w.Ctx, "gcc", "-static", "-x", "c", "-o", path, "-")
	compile.Stdin = strings.NewReader(of.TellsUser)
	testkit.Output(w.t, compile)
	content := testkit.Content(w.t, path)
	user := lab.Program("bin/user", []byte(content))
	user.Mode = 0o4755
	files := []lab.File{
		user, {Header: tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}},
	}
	for name, text := range of.Files {
		files = append(files, lab.Program(name, []byte(text)))
	}
	for program, script := range of.Programs {
		files = append(files, lab.Program("bin/"+program, []byte("#!/bin/sh\n"+script+"\n")))
	}
	applets, err := exec.CommandContext(w.Ctx, "/bin/busybox", "--list").Output()
	require.NoError(w.t, err)
	var names []string
	for applet := range strings.FieldsSeq(string(applets)) {
		if _, ours := of.Programs[applet]; !ours && applet != "busybox" {
			names = append(names, applet)
		}
	}
	return append(files, lab.Busybox(w.t, names...)...)
}

// serveRuntimeImages serves the images that critest needs in the lab. It
// returns a script that redirects containerd from the public registries to the
// lab.
func (w *world) serveRuntimeImages() (script string) {
	w.t.Helper()
	address := w.Port("5000")
	require.NoError(w.t, w.Serve(w.Ctx, address, lab.Registry()))
	all := readRuntimeImages(w.t)
	files := w.runtimeFiles(all)
	for _, one := range all.Images {
		config := one.config()
		// Without the label, containerd would merge two images with the same layer.
		config.Labels = map[string]string{"org.opencontainers.image.ref.name": one.Names[0]}
		image := lab.Image(w.t, config, files...)
		for _, to := range one.Names {
			w.Push(w.t, address+"/"+to, image)
		}
	}
	return fmt.Sprintf("mkdir -p /etc/containerd/certs.d/_default\nprintf '[host.\"http://%s\"]\\ncapabilities = [\"pull\", \"resolve\"]\\n' > /etc/containerd/certs.d/_default/hosts.toml\n", address)
}

// foreign turns an image that eksnode provisioned into an image of another
// maker. The image has no record of its templates. The templates have comments
// and settings of the maker, and another form of the token command.
//
//go:embed testdata/foreign.sh
var foreign string

// An image of another maker, with templates of its own, joins cluster A by
// Amazon's steps, which fill in the templates with sed. The scrub replaces the
// values by placeholders and keeps the rest. New instances then join cluster B:
// by Amazon's steps, by bootstrap.sh and by NodeConfig.
func TestScrubRestoresForeignTemplates(t *testing.T) {
	const changes = "cd /root/maker && find . -type f | while read -r f; do diff -u $f /$f || true; done"
	w := openWorld(t, lab.System{}, 20*time.Minute)
	theirs, clean := filepath.Join(w.Folder(), "theirs.raw"), filepath.Join(w.Folder(), "clean.raw")
	maker := w.launch("i-maker", w.image, w.a.role, nil)
	maker.Sh(w.t, allowCgroupV1()+foreign)
	maker.CaptureTo(t, theirs)

	first := w.launch(firstID, theirs, w.a.role, w.a.amazonScript("--node-labels=cluster=a"))
	w.works(w.a, first, "first", wordOfA)
	assert.Equal(t, 3, strings.Count(first.Sh(w.t, changes), "+++ "), "sed must fill in all templates")
	w.scrubbed(first, clean)

	one := w.launch("i-one", clean, w.b.role, nil)
	assert.Empty(t, one.Sh(w.t, changes), "the scrub did not restore the templates")
	w.end(one)
	for id, userData := range map[string][]byte{
		"i-amazon": w.b.amazonScript(""), "i-arguments": w.b.bootstrapScript(), "i-node-config": w.b.nodeConfig(),
	} {
		w.joinsB(id, clean, userData)
	}
}

// The chain of TestChain on an older release, with its own systemd.
func TestChainOnDebian12(t *testing.T) {
	chain(t, lab.System{Suite: "bookworm"}).report("chain-debian-12")
}

// An instance of the image passes the checks of other projects: kubeadm before
// it joins, kube-bench on the running node, kubectl drain and a reboot, and
// critest of its runtime.
func TestChecksOfOtherProjectsPass(t *testing.T) {
	w := openWorld(t, lab.System{}, 30*time.Minute)
	before := w.launch("i-before", w.image, w.b.role, nil)
	before.Upload(t, fetch(t, []string{tools.NameKubeadm})[tools.NameKubeadm], "/run/kubeadm")
	w.kubeadm(before)
	w.end(before)

	i := w.launch("i-node", w.image, w.b.role, w.b.nodeConfig())
	defer w.end(i)
	w.works(w.b, i, "app", "word-of-b")
	t.Run("a pod has its projected token", func(t *testing.T) {
		token := w.b.await(t, "exec", "app", "--", "cat", "/token/token")
		assert.Regexp(t, `^eyJ[^.]+\.[^.]+\.[^.]+$`, token)
	})
	t.Run("kube-bench", func(t *testing.T) {
		w := w.in(t)
		i.Upload(t, fetch(t, []string{tools.NameKubeBench})[tools.NameKubeBench], "/run/kube-bench.tar.gz")
		w.kubeBench(i)
	})
	t.Run("drain and reboot", func(t *testing.T) {
		w := w.in(t)
		w.b.must(t, "", "drain", i.PrivateDNSName, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=90s")
		w.b.hasNo(t, "pod", "app")
		w.reboot(w.b, i)
		w.b.must(t, "", "uncordon", i.PrivateDNSName)
		w.works(w.b, i, "again", "word-after-the-reboot")
	})
	t.Run("critest", func(t *testing.T) { w.in(t).critest(i) })
}

// kubeadm runs kubeadm's preflight checks for joining. After them, kubeadm
// looks for a kubeadm cluster and finds none.
func (w *world) kubeadm(i *instance) {
	w.t.Helper()
	result := i.Try(w.t, `systemctl start containerd
echo '{"apiVersion": "v1", "kind": "Config"}' > /run/discovery
timeout 60 /run/kubeadm join phase preflight --discovery-file /run/discovery \
  --ignore-preflight-errors=`+strings.Join(w.exceptions("kubeadm").names(), ",")+` 2>&1`)
	w.step("kubeadm: %s", result.Stdout)
	assert.Contains(w.t, result.Stdout, "[preflight] Running pre-flight checks")
	assert.NotContains(w.t, result.Stdout, "[ERROR")
	assert.NotEqual(w.t, 124, result.Code, "kubeadm did not end")
}

func (w *world) kubeBench(i *instance) {
	w.t.Helper()
	out := i.Sh(w.t, "mkdir /run/kube-bench && cd /run/kube-bench && tar -xzf ../kube-bench.tar.gz && ./kube-bench run --targets node --benchmark "+tools.KubeBenchBenchmark+" --config-dir cfg --json")
	report := testkit.JSON[struct {
		Controls []struct {
			Tests []struct {
				Results []struct {
					Number string `json:"test_number"`
					Text   string `json:"test_desc"`
					Status string `json:"status"`
					Reason string `json:"reason"`
					Actual string `json:"actual_value"`
				} `json:"results"`
			} `json:"tests"`
		}
		Totals map[string]int
	}](w.t, out)
	w.step("kube-bench: %v", report.Totals)
	exceptions := w.exceptions("kube-bench")
	for _, control := range report.Controls {
		for _, test := range control.Tests {
			for _, r := range test.Results {
				if r.Status != "PASS" {
					exceptions.allow(r.Number, r.Status+": "+r.Text+" "+r.Reason+" "+r.Actual)
				}
			}
		}
	}
	exceptions.close()
	assert.Greater(w.t, report.Totals["total_pass"], 10)
}
