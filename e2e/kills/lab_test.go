//go:build e2e

package kills_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine/aptmirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/watch"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/imdstest"
)

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
	cniPlugins = "1.9.1"
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
	write(t, filepath.Join(top, "etc/hosts"), "127.0.0.1 localhost\n10.77.0.1 "+aptmirror.Host+"\n", 0o644)
	write(t, filepath.Join(top, "etc/systemd/system", target), "[Unit]\nRequires=systemd-journald.service\nAfter=systemd-journald.service\n", 0o644)
	w.repository(t)
	write(t, filepath.Join(top, "etc/apt/sources.list"), "deb [trusted=yes] http://"+packages+" ./\n", 0o644)
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

func write(t *testing.T, name, content string, mode os.FileMode) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(t, os.WriteFile(name, []byte(content), mode))
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
		write(t, filepath.Join(folder, name), "#!/bin/sh\n"+script+long, 0o755)
	}
	plugins := filepath.Join(folder, "cni.tgz")
	out, err := exec.Command("tar", "-C", filepath.Join(folder, "cni"), "-czf", plugins, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, mirror.Lay(w.Ctx, filepath.Join(folder, "mirror"),
		mirror.Kubelet(kubernetes, runtime.GOARCH, filepath.Join(folder, "kubelet")),
		mirror.CredentialProvider(provider, runtime.GOARCH, filepath.Join(folder, "provider")),
		mirror.CNIPlugins(cniPlugins, runtime.GOARCH, plugins)))
	w.ServeMirror(t, assets, filepath.Join(folder, "mirror"), mirror.Options{})
	i := imdstest.Typical()
	i.UserData = []byte(nodeConfig)
	require.NoError(t, w.Lab.Serve(w.Ctx, metadata, imdstest.New(i)))
}
