//go:build e2e && full

package join_test

import (
	"archive/tar"
	_ "embed"
	"encoding/json"
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
	var suites []struct{ SpecReports []spec }
	require.NoError(w.t, json.Unmarshal([]byte(out), &suites), "%.2000s", out)
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

// runtimeImage is an image that critest needs, with all its names.
type runtimeImage struct {
	names  []string
	config v1.Config
}

// webServer is a server with nginx's process names.
func webServer(port string) v1.Config {
	return v1.Config{Entrypoint: []string{"/bin/nginx", "master process"}, Env: []string{"PATH=/bin", "PORT=" + port}}
}

func user(name string) v1.Config { return v1.Config{User: name, Cmd: idle.Entrypoint, Env: idle.Env} }

// runtimeImages returns the images of critest 1.36, from pkg/validate and
// pkg/framework.
func runtimeImages() []runtimeImage {
	const own, tests = "k8s-staging-cri-tools/", "e2e-test-images/"
	waits := v1.Config{Cmd: idle.Entrypoint, Env: idle.Env}
	return []runtimeImage{
		{[]string{tests + "busybox:1.29-2"}, waits},
		{[]string{tests + "nginx:1.14-2", tests + "httpd:2.4.39-4"}, webServer("80")},
		{[]string{own + "hostnet-nginx-" + runtime.GOARCH + ":latest"}, webServer("12003")},
		{[]string{"pause:3.9"}, waits},
		{[]string{tests + "nonewprivs:1.3"}, v1.Config{Entrypoint: []string{"/bin/user"}}},
		{[]string{own + "test-image-latest:latest"}, waits},
		{[]string{own + "test-image-tag:test"}, waits},
		{[]string{own + "test-image-tag:all"}, waits},
		{[]string{own + "test-image-1:latest"}, waits},
		{[]string{own + "test-image-2:latest"}, waits},
		{[]string{own + "test-image-3:latest"}, waits},
		{[]string{own + "test-image-tags:1", own + "test-image-tags:2", own + "test-image-tags:3"}, waits},
		{[]string{own + "test-image-user-uid:latest"}, user("1002")},
		{[]string{own + "test-image-user-username:latest"}, user("www-data")},
		{[]string{own + "test-image-user-uid-group:latest"}, user("1003:users")},
		{[]string{own + "test-image-user-username-group:latest"}, user("www-data:users")},
		{[]string{own + "test-image-predefined-group:latest"}, user("1000")},
	}
}

// Programs of upstream's images that busybox lacks.
var runtimePrograms = map[string]string{
	"pgrep": "exec pidof \"$1\"", "ipcs": "exec cat /proc/sysvipc/shm",
	"nginx": "mkdir -p /var/run\necho $$ > /var/run/nginx.pid\necho serving as httpd\nhttpd -f -p \"$PORT\" -h /www &\nwait",
}

// tellsUser is a program with the set-user-ID bit.
const tellsUser = "#include <stdio.h>\n#include <unistd.h>\nint main(void) { printf(\"Effective uid: %d\\n\", geteuid()); }\n"

// runtimeFiles returns the content of all those images: busybox with all its
// applets, as in upstream's image.
func (w *world) runtimeFiles() []lab.File {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "user")
	compile := exec.CommandContext(w.Ctx, "gcc", "-static", "-x", "c", "-o", path, "-")
	compile.Stdin = strings.NewReader(tellsUser)
	testkit.Output(w.t, compile)
	content := testkit.Content(w.t, path)
	user := lab.Program("bin/user", []byte(content))
	user.Mode = 0o4755
	files := []lab.File{
		user, {Header: tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}},
		lab.Program("etc/passwd", []byte("root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/var/www:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\ndefault-user:x:1000:1000::/:/bin/sh\n")),
		lab.Program("etc/group", []byte("root:x:0:\nwww-data:x:33:\nusers:x:100:\nnogroup:x:65534:\ndefault-user:x:1000:\ngroup-defined-in-image:x:50000:default-user\n")),
		lab.Program("www/index.html", []byte("<p>It works.</p>\n")),
	}
	for program, script := range runtimePrograms {
		files = append(files, lab.Program("bin/"+program, []byte("#!/bin/sh\n"+script+"\n")))
	}
	applets, err := exec.CommandContext(w.Ctx, "/bin/busybox", "--list").Output()
	require.NoError(w.t, err)
	var names []string
	for applet := range strings.FieldsSeq(string(applets)) {
		if _, ours := runtimePrograms[applet]; !ours && applet != "busybox" {
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
	files := w.runtimeFiles()
	for _, one := range runtimeImages() {
		one.config.Labels = map[string]string{"org.opencontainers.image.ref.name": one.names[0]} // without it, containerd would merge two images with the same layer
		image := lab.Image(w.t, one.config, files...)
		for _, to := range one.names {
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
	var report struct {
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
	}
	require.NoError(w.t, json.Unmarshal([]byte(out), &report))
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
