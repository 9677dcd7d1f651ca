//go:build e2e

package kills_test

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/imdstest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine/aptmirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
	"github.com/eksnode/packer-plugin-eksnode/e2e/watch"
)

// nodeConfig is the instance's user data.
const nodeConfig = `apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: first, apiServerEndpoint: "https://10.77.0.1:6443", certificateAuthority: Y2E=, cidr: 10.100.0.0/16}
  kubelet: {config: {maxPods: 42}, flags: ["--node-labels=team=a"]}
  containerd: {config: "[debug]\n  level = \"warn\"\n"}
`

// localCtr precedes containerd's own ctr in the path. It lists the pause image
// after a pull, because there is no registry.
//
//go:embed testdata/local-ctr.sh
var localCtr string

// used leaves state of builders, users and pods on a node.
//
//go:embed testdata/used.sh
var used string

// acts are the commands in order. Each starts from the result of an earlier
// one: a machine is provisioned, joins, is used, is scrubbed, and instances of
// it boot.
func (w *world) acts(t *testing.T) []*act {
	t.Helper()
	provision := &act{
		name: "provision", from: &start{layers: w.base}, ready: ":",
		args: []string{command, "provision", "--kubernetes-version", kubernetes, "--source-url", "http://" + assets, "--allow-http",
			"--versions", "ecr-credential-provider=" + provider, "--versions", "cni-plugins=" + cniPlugins,
			"--sysctls", "vm.max_map_count=262144", "--sbom"},
	}
	provisioned := after(provision.from, provision.undisturbed(t, w))

	user := w.boot(t, provisioned.layers)
	user.sh(localCtr)
	user.sh(endpoint + " eksnode init")
	user.sh(used)
	scrub := &act{name: "scrub", from: after(provisioned, user), ready: "systemctl start containerd kubelet", args: []string{"eksnode", "scrub", "--yes"}}
	image := after(scrub.from, scrub.undisturbed(t, w))

	boot := func(name string, args ...string) *act {
		a := &act{name: name, from: image, ready: localCtr, args: args}
		a.undisturbed(t, w)
		return a
	}
	return []*act{
		provision, scrub,
		boot("first_boot_by_NodeConfig", "env", endpoint, "eksnode", "init"),
		boot("first_boot_by_bootstrap.sh", "env", endpoint, "/etc/eks/bootstrap.sh", "first", "--apiserver-endpoint", "https://10.77.0.1:6443",
			"--b64-cluster-ca", "Y2E=", "--dns-cluster-ip", "10.100.0.10", "--kubelet-extra-args", "--node-labels=team=a"),
	}
}

// inside marks a test process that runs in namespaces of its own. Its mounts
// and child processes end with it.
const inside = "EKSNODE_KILLS_INSIDE"

// enclose is the command of the first process in the namespace. Its shell reaps
// children of killed programs; otherwise a machine would not end.
const enclose = `mount -t proc proc /proc || exit; "$@" & wait $!`

// limit bounds all rounds.
const limit = 2 * time.Hour

func TestMain(m *testing.M) {
	watch.Become()
	if os.Getenv(inside) != "" {
		os.Exit(m.Run())
	}
	runtime.LockOSThread() // the kernel sends Pdeathsig when this thread ends
	cmd := exec.Command("sh", append([]string{"-c", enclose, "sh"}, os.Args...)...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Unshareflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		os.Exit(1)
	}
}

// Addresses of assets, instance metadata and packages, and versions of assets.
const (
	assets     = "10.77.0.1:8080"
	metadata   = "10.77.0.1:8081"
	packages   = "10.77.0.1:8082"
	endpoint   = "AWS_EC2_METADATA_SERVICE_ENDPOINT=http://" + metadata
	kubernetes = "1.35.4" // the last minor version with Debian's own containerd
	provider   = "1.37.0"
	cniPlugins = "1.10.0"
)

// world is a lab whose machines are kept in memory.
type world struct {
	*lab.Lab
	memory  string   // a folder of a tmpfs
	base    []string // layers of an unused machine
	program string   // eksnode
	groups  []string // parent control groups of the machines' groups
	unified string   // the cgroup v2 hierarchy
}

func open(t *testing.T) *world {
	t.Helper()
	w := &world{memory: t.TempDir(), program: lab.Agent(t)}
	require.NoError(t, unix.Mount("tmpfs", w.memory, "tmpfs", 0, ""))
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(w.memory, unix.MNT_DETACH)) })
	w.Lab = lab.Open(t, limit, machine.Nspawn)
	var err error
	w.groups, err = machine.ControlGroups()
	require.NoError(t, err)
	for _, group := range w.groups {
		var st unix.Statfs_t
		require.NoError(t, unix.Statfs(group, &st))
		if st.Type == unix.CGROUP2_SUPER_MAGIC {
			w.unified = group
		}
	}
	require.NotEmpty(t, w.unified, "killing all processes at once needs cgroup v2")
	w.serve(t)
	top := w.temporary(t)
	w.base = []string{top, w.Root}
	testkit.Write(t, filepath.Join(top, "etc/hosts"), "127.0.0.1 localhost\n10.77.0.1 "+aptmirror.Host+"\n")
	testkit.Write(t, filepath.Join(top, "etc/systemd/system", target),
		"[Unit]\nRequires=systemd-journald.service\nAfter=systemd-journald.service\n")
	w.repository(t)
	testkit.Write(t, filepath.Join(top, "etc/apt/sources.list"), "deb [trusted=yes] http://"+packages+" ./\n")
	return w
}

// repository serves only the packages that a provision installs. Lists and
// archives are small then, so that random kills rather hit the installation
// itself.
func (w *world) repository(t *testing.T) {
	t.Helper()
	debian, err := distros.ByID("debian")
	require.NoError(t, err)
	n := w.boot(t, w.base)
	n.sh("apt-get update -q && apt-get install -qy --no-install-recommends --download-only " + strings.Join(debian.AllPackages(), " "))
	n.sh(`cd /var/cache/apt/archives
for deb in *.deb; do
  dpkg-deb --raw-extract $deb tree
  dpkg-deb -Znone --build tree $deb
  rm -r tree
  dpkg-deb --field $deb
  printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' $deb $(stat -c %s $deb) $(sha256sum $deb | cut -d' ' -f1)
done > index
sed '/^dpkg-deb: building/d' index > Packages`)
	n.end()
	served := http.FileServer(http.Dir(filepath.Join(n.upper(), "var/cache/apt/archives")))
	require.NoError(t, w.Serve(w.Ctx, packages, served))
}

// temporary makes a folder in memory, until the test ends.
func (w *world) temporary(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp(w.memory, "")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(folder, 0o755))
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(folder)) })
	return folder
}

// serve serves a node's downloads and its instance metadata. The programs are
// scripts; the kubelet's script runs until it is killed.
func (w *world) serve(t *testing.T) {
	t.Helper()
	folder := w.temporary(t)
	long := "\nexit\n" + strings.Repeat("# as large as a program\n", 1<<16)
	scripts := map[string]string{
		"kubelet": "exec sleep infinity", "provider": `cat > /dev/null; echo '{"auth": {"x": {"username": "AWS", "password": "secret"}}}'`,
		"cni/bridge": "", "cni/host-local": "", "cni/loopback": "", "cni/portmap": "",
	}
	for name, script := range scripts {
		scripts[name] = "#!/bin/sh\n" + script + long
	}
	testkit.Programs(t, folder, scripts)
	plugins := filepath.Join(folder, "cni.tgz")
	testkit.Run(t, "tar", "-C", filepath.Join(folder, "cni"), "-czf", plugins, ".")
	require.NoError(t, mirror.Lay(w.Ctx, filepath.Join(folder, "mirror"),
		mirror.Of(tools.NameKubelet, kubernetes, runtime.GOARCH, filepath.Join(folder, "kubelet")),
		mirror.Of(tools.NameCredentialProvider, provider, runtime.GOARCH, filepath.Join(folder, "provider")),
		mirror.Of(tools.NameCNIPlugins, cniPlugins, runtime.GOARCH, plugins)))
	w.ServeMirror(t, assets, filepath.Join(folder, "mirror"), mirror.Options{})
	i := imdstest.Typical()
	i.UserData = []byte(nodeConfig)
	require.NoError(t, w.Lab.Serve(w.Ctx, metadata, imdstest.New(i)))
}

//go:embed testdata/free.txt
var freeFile string

// free matches the paths that may differ between two undisturbed runs.
func free() *regexp.Regexp {
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(freeFile), "\n"),
		func(l string) bool { return l[0] == '#' })
	return regexp.MustCompile(`^(` + strings.Join(lines, "|") + `)$`)
}

// start is the starting state of runs: layers of a disk, the uppermost first.
type start struct {
	layers []string
	sums   sync.Map // path → checksum of a file's content in the starting state
}

// look records the machine's disk, its /run, mounts and units.
func (n *node) look(from *start) testkit.Tree {
	n.t.Helper()
	s, free := testkit.Tree{}, free()
	s.Note(n.t, n.root(), "", free.MatchString, func(name, path string) string {
		if end, counts := n.meaning(name); counts != nil {
			return n.meant(path, end, counts)
		}
		if _, err := os.Lstat(filepath.Join(n.upper(), name)); err == nil {
			return testkit.Sum(n.t, path)
		}
		known, ok := from.sums.Load(name)
		if !ok {
			known = testkit.Sum(n.t, path)
			from.sums.Store(name, known)
		}
		return known.(string)
	})
	s.Note(n.t, fmt.Sprintf("/proc/%d/root/run", n.leader), "/run", free.MatchString, func(_, path string) string { return testkit.Sum(n.t, path) })
	for line := range strings.Lines(n.sh("findmnt --noheadings --raw --output TARGET,FSTYPE; systemctl list-units --plain --no-legend --full")) {
		f := strings.Fields(line)
		if strings.Contains(line, "run-credentials-") || strings.Contains(line, "/run/credentials/") {
			continue // systemd's, while one of its own services starts
		}
		s[strings.Join(f[:min(4, len(f))], " ")] = ""
	}
	return s
}

// meaning returns how to read a file that packages' tools write differently
// after a kill: the end of each part, and the parts that count. counts is nil
// for other files.
func (n *node) meaning(name string) (end string, counts func(part string) bool) {
	switch {
	case strings.HasPrefix(name, "/var/lib/dpkg/info/") && strings.HasSuffix(name, ".list"):
		// dpkg drops missing folders, such as those of translations.
		return "\n", func(file string) bool {
			st, err := os.Lstat(filepath.Join(n.root(), file))
			return err == nil && !st.IsDir()
		}
	case name == "/var/lib/dpkg/status":
		// dpkg omits the checksum of a configuration file if a kill interrupted its
		// installation.
		return "\n", func(line string) bool { return !strings.HasPrefix(line, " /etc/") }
	case name == "/var/lib/apt/extended_states":
		return "\n\n", func(paragraph string) bool { return strings.HasSuffix(paragraph, "Auto-Installed: 1") }
	case name == "/var/lib/ucf/hashfile":
		return "\n", func(string) bool { return true }
	}
	return "", nil
}

func (n *node) meant(path, end string, counts func(part string) bool) string {
	n.t.Helper()
	parts := slices.DeleteFunc(strings.Split(strings.TrimSpace(testkit.Content(n.t, path)), end), func(part string) bool { return !counts(part) })
	slices.Sort(parts)
	all := strings.Join(slices.Compact(parts), ",")
	if len(all) > 4096 {
		return fmt.Sprintf("%x", sha256.Sum256([]byte(all)))
	}
	return all
}
