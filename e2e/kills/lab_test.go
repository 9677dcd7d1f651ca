//go:build e2e

package kills_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine/aptmirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/watch"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/imdstest"
)

// inside tells this program that it runs in namespaces of its own: its mounts
// and whatever it has started vanish with it, however it ends.
const inside = "EKSNODE_KILLS_INSIDE"

// enclose is the first process in there. The shell reaps what killed programs
// leave, which a machine would not end without.
const enclose = `mount -t proc proc /proc || exit; "$@" & wait $!`

func TestMain(m *testing.M) {
	watch.Become()
	if os.Getenv(inside) != "" {
		os.Exit(m.Run())
	}
	runtime.LockOSThread() // Pdeathsig is sent when this thread ends
	cmd := exec.Command("sh", append([]string{"-c", enclose, "sh"}, os.Args...)...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Unshareflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		os.Exit(1)
	}
}

// Where the lab serves assets, instance metadata and packages, and versions of
// assets.
const (
	assets     = "10.77.0.1:8080"
	metadata   = "10.77.0.1:8081"
	packages   = "10.77.0.1:8082"
	endpoint   = "AWS_EC2_METADATA_SERVICE_ENDPOINT=http://" + metadata
	kubernetes = "1.34.4"
	provider   = "1.37.0"
	plugins    = "1.9.1"
)

// lab is a lab whose machines are kept in memory.
type lab struct {
	*machine.Lab
	ctx     context.Context
	memory  string   // a folder of a tmpfs
	base    []string // layers of a machine that nobody has touched
	program string   // eksnode
	groups  []string // control groups that machines get theirs in
	unified string   // the one of cgroup v2
}

// logWriter hands the harness's messages to the test's log.
type logWriter struct{ t *testing.T }

func (w logWriter) Write(text []byte) (int, error) {
	w.t.Logf("%s", strings.TrimRight(string(text), "\n"))
	return len(text), nil
}

func open(t *testing.T) *lab {
	t.Helper()
	l := &lab{ctx: t.Context(), memory: t.TempDir()}
	require.NoError(t, unix.Mount("tmpfs", l.memory, "tmpfs", 0, ""))
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(l.memory, unix.MNT_DETACH)) })
	var root string
	var err error
	l.Lab, root, err = machine.Open(l.ctx, logWriter{t}, machine.Nspawn)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	l.groups, err = machine.ControlGroups()
	require.NoError(t, err)
	for _, group := range l.groups {
		var st unix.Statfs_t
		require.NoError(t, unix.Statfs(group, &st))
		if st.Type == unix.CGROUP2_SUPER_MAGIC {
			l.unified = group
		}
	}
	require.NotEmpty(t, l.unified, "cgroup v2 is needed to kill all at once")
	l.program = filepath.Join(l.memory, "eksnode")
	out, err := exec.CommandContext(l.ctx, "go", "build", "-trimpath", "-tags", "agent", "-ldflags", "-s -w", "-o", l.program, "../../cmd/eksnode").CombinedOutput()
	require.NoError(t, err, "%s", out)
	l.serve(t)
	lay := l.temporary(t)
	l.base = []string{lay, root}
	write(t, filepath.Join(lay, "etc/hosts"), "127.0.0.1 localhost\n10.77.0.1 "+aptmirror.Host+"\n", 0o644)
	write(t, filepath.Join(lay, "etc/systemd/system", target), "[Unit]\nRequires=systemd-journald.service\nAfter=systemd-journald.service\n", 0o644)
	l.repository(t)
	write(t, filepath.Join(lay, "etc/apt/sources.list"), "deb [trusted=yes] http://"+packages+" ./\n", 0o644)
	return l
}

// repository serves the packages that a provision installs, and no others: apt
// is not busy with lists and archives then, but with what a kill may disturb.
func (l *lab) repository(t *testing.T) {
	t.Helper()
	debian, err := distros.ByID("debian")
	require.NoError(t, err)
	n := l.boot(t, l.base)
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
	require.NoError(t, l.Serve(l.ctx, packages, served))
}

// temporary makes a folder in memory, until the test ends.
func (l *lab) temporary(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp(l.memory, "")
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

// serve offers what a node downloads, and what it asks about itself. Its
// programs are stand-ins; the kubelet's goes on until it is ended.
func (l *lab) serve(t *testing.T) {
	t.Helper()
	folder := l.temporary(t)
	standIn := func(name, script string) string {
		file := filepath.Join(folder, name)
		write(t, file, "#!/bin/sh\n"+script+"\nexit\n"+strings.Repeat("# as long as a program\n", 1<<16), 0o755)
		return file
	}
	cni := filepath.Join(folder, "cni.tgz")
	write(t, cni, archive(t, "bridge", "host-local", "loopback", "portmap"), 0o644)
	laid := filepath.Join(folder, "mirror")
	require.NoError(t, mirror.Lay(l.ctx, laid,
		mirror.Kubelet(kubernetes, runtime.GOARCH, standIn("kubelet", "exec sleep infinity")),
		mirror.CredentialProvider(provider, runtime.GOARCH, standIn("provider", `cat > /dev/null; echo '{"auth": {"x": {"username": "AWS", "password": "secret"}}}'`)),
		mirror.CNIPlugins(plugins, runtime.GOARCH, cni)))
	listener, err := l.Listen(l.ctx, "tcp", assets)
	require.NoError(t, err)
	server, err := mirror.ServeOn(l.ctx, listener, laid, mirror.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	i := imdstest.Typical()
	i.UserData = []byte(nodeConfig)
	require.NoError(t, l.Serve(l.ctx, metadata, imdstest.New(i)))
}

// archive packs stand-ins of CNI plugins.
func archive(t *testing.T, names ...string) string {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	pack := tar.NewWriter(zip)
	for _, name := range names {
		content := strings.Repeat("the plugin "+name+"\n", 1<<14)
		require.NoError(t, pack.WriteHeader(&tar.Header{Name: "./" + name, Mode: 0o755, Size: int64(len(content))}))
		_, err := pack.Write([]byte(content))
		require.NoError(t, err)
	}
	require.NoError(t, pack.Close())
	require.NoError(t, zip.Close())
	return out.String()
}
