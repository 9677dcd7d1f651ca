//go:build linux

package firstboot

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
)

// inside marks a test process that runs in a machine's root.
const inside = "EKSNODE_TEST_INSIDE"

func TestMain(m *testing.M) {
	testkit.EnterRoot()
	os.Exit(m.Run())
}

// onMachine runs the calling test again, in the root of a provisioned machine.
func onMachine(t *testing.T, body func(t *testing.T)) {
	t.Helper()
	if os.Getenv(inside) != "" {
		body(t)
		return
	}
	root := t.TempDir()
	provisioned(t, root)
	top, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.Command("/proc/self/exe", testkit.InRoot, root, "-test.run", "^"+top+"$", "-test.v")
	cmd.Env = []string{"PATH=/usr/bin", "TMPDIR=/tmp", inside + "=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	out := testkit.Output(t, cmd)
	t.Log(out)
}

// provisioned makes the machine.
func provisioned(t *testing.T, root string) {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/machine.txtar")
	require.NoError(t, err)
	files := map[string]string{}
	for _, f := range archive.Files {
		files[f.Name] = string(f.Data)
	}
	var m manifest.Manifest
	for _, id := range []string{"kubelet", "containerd"} {
		program := manifest.File{Path: "/usr/bin/" + id, Size: int64(len(files["usr/bin/"+id]))}
		m.Assets = append(m.Assets, manifest.Asset{ID: id, Files: []manifest.File{program}})
	}
	template := func(path, content string) {
		files[path[1:]] = content
		m.Templates = append(m.Templates,
			manifest.Template{Path: path, Mode: 0o644, Content: content, SHA256: manifest.Sum([]byte(content))})
	}
	for _, tmpl := range templates.All() {
		template(tmpl.Path, string(tmpl.Content))
	}
	template("/etc/eks/image-credential-provider/config.json", `{"kind":"CredentialProviderConfig"}`)
	// A user's edit, which makes bootstrap.sh fill in the whole template.
	files[templates.ContainerdConfig[1:]] += "# an operator's\n"
	text, err := m.Encode()
	require.NoError(t, err)
	files[manifest.Path[1:]] = string(text)
	files["etc/eks/image-credential-provider/ecr-credential-provider"] = "-> /usr/bin/ecr-credential-provider"
	files[wants+"/containerd.service"] = "-> /usr/lib/systemd/system/containerd.service"
	hosttest.Lay(t, root, files)
	testkit.Busybox(t, filepath.Join(root, "usr/bin"), applets...)
	for _, program := range testkit.Glob(t, filepath.Join(root, "usr/bin/*")) {
		require.NoError(t, os.Chmod(program, 0o755))
	}
}

// record sets the versions of the machine's programs.
func record(t *testing.T, root, kubelet, containerd string) {
	t.Helper()
	name := filepath.Join(root, manifest.Path)
	m := testkit.JSON[manifest.Manifest](t, testkit.Content(t, name))
	m.Assets[0].Version, m.Assets[1].Version = kubelet, containerd
	text, err := m.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, text, 0o644))
}

// start gives the machine a new instance's empty disks; no service runs yet.
func start(t *testing.T) {
	t.Helper()
	for _, gone := range []string{"/run/eksnode", "/dev/md/kubernetes", "/sys/block", active} {
		require.NoError(t, os.RemoveAll(gone))
	}
	require.NoError(t, os.MkdirAll(active, 0o755))
	require.NoError(t, os.MkdirAll("/dev/disk/by-id", 0o755))
	for _, name := range []string{"nvme1n1", "nvme2n1"} {
		require.NoError(t, os.WriteFile("/dev/"+name, make([]byte, 128<<10), 0o600))
		err := os.Symlink("../../"+name, "/dev/disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_AWS"+name)
		require.True(t, err == nil || os.IsExist(err), err)
	}
}

// volatile matches paths that a running machine has and an image lacks, and
// this test's own files.
var volatile = []string{"/run", "/proc", "/dev", "/sys", "/fake", "/tmp"}

// disk records every file, link and folder of the machine.
func disk(t *testing.T, root string) (files, folders testkit.Tree) {
	t.Helper()
	files, folders = testkit.Tree{}, testkit.Tree{}
	skip := func(name string) bool { return slices.Contains(volatile, name) }
	files.Note(t, root, "", skip, func(_, path string) string { return testkit.Content(t, path) })
	for name := range files {
		if info, err := os.Lstat(filepath.Join(root, name)); assert.NoError(t, err) && info.IsDir() {
			folders[name] = files[name]
			delete(files, name)
		}
	}
	return files, folders
}

const (
	wants  = "/etc/systemd/system/multi-user.target.wants"
	active = "/fake/active" // a file for each running unit
)

// applets are the machine's other programs, by busybox.
var applets = []string{"cat", "cp", "dd", "ln", "mkdir", "mount", "rm", "sed", "sh", "tr", "truncate", "umount"}
