//go:build linux

package scrub

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// If a file that rules read is a FIFO, a device, a folder or huge, scrub and audit
// complete and name the file.
func TestIrregularFilesAreNamed(t *testing.T) {
	for kind, lay := range map[string]func(name string) error{
		"fifo":   func(name string) error { return unix.Mkfifo(name, 0o644) },
		"device": func(name string) error { return unix.Mknod(name, unix.S_IFCHR|0o644, int(unix.Mkdev(1, 5))) },
		"folder": func(name string) error { return os.Mkdir(name, 0o755) },
		"huge":   func(name string) error { return os.WriteFile(name, nil, 0o644) },
	} {
		for _, name := range []string{
			"/etc/machine-id", "/etc/passwd", "/etc/hosts", "/etc/fstab", manifest.Path, templates.Kubeconfig, templates.KubeletConfig,
			"/etc/containerd/config.toml", containerdMeta, "/usr/lib/tmpfiles.d/x.conf", sshdCloudInit, "/etc/sysctl.d/x.conf",
		} {
			if kind == "huge" && name == "/etc/machine-id" || kind == "folder" && name == "/etc/sysctl.d/x.conf" {
				continue // a huge machine-id is emptied; a folder there is no configuration
			}
			t.Run(kind+name, func(t *testing.T) {
				files := joinedNode()
				files["etc/hosts"], files["var/log/wtmp"] = "127.0.0.1 localhost\n", "x"
				delete(files, strings.TrimPrefix(name, "/"))
				_, root := surrounded(t, files)
				at := filepath.Join(root, name)
				require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
				require.NoError(t, lay(at))
				if kind == "huge" {
					require.NoError(t, os.Truncate(at, 3<<30))
				}
				if kind == "fifo" { // a writer that never writes
					holder, err := os.OpenFile(at, os.O_RDWR, 0)
					require.NoError(t, err)
					defer holder.Close()
				}
				done, audit := result(t, root, Spec{})
				said := audit.Error + strings.Join(findings(audit), "\n")
				if name == "/etc/sysctl.d/x.conf" { // only an audit reads it
					said += "; " + done.Error
				} else {
					assert.NotEqual(t, plan.OK, done.Result)
					assert.Contains(t, done.Error, name)
				}
				assert.Contains(t, said, name)
				assert.NotContains(t, audit.Error, "host-ids-left") // it looks for the ID in other files
			})
		}
	}
}

// A link to /dev/null masks a configuration file. This is common and no error.
func TestMaskedFilesAreNoError(t *testing.T) {
	h, root := surrounded(t, map[string]string{"etc/passwd": passwd, "dev/": "", "etc/eks/": "", "usr/lib/tmpfiles.d/x.conf": "-> /dev/null", "etc/sysctl.d/x.conf": "-> /dev/null", "var/log/wtmp": ""})
	require.NoError(t, unix.Mknod(filepath.Join(root, "dev/null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	assert.Empty(t, planned(t, h, Spec{Only: []string{"login-records", "kernel-settings"}}, ToAudit))
}

// hostileNames are file names that careless programs handle wrongly.
var hostileNames = []string{"new\nline", "\xff\xfe", "-rf", "* ?", `back\slash [x]`, "..x", " "}

// lay builds an image in a folder, from the same map as tree.
func lay(t *testing.T, root string, files map[string]string) *host.Host {
	t.Helper()
	hosttest.Lay(t, root, files)
	return hosttest.Mounted(t, root)
}

// surrounded is tree with a neighbouring folder. At the test's end that folder
// must be unchanged.
func surrounded(t *testing.T, files map[string]string) (h *host.Host, root string) {
	t.Helper()
	outside := testkit.InMemory(t)
	evil := filepath.Join(outside, "tree-evil") // starts like the root's name
	testkit.Write(t, filepath.Join(evil, "etc/machine-id"), "outside")
	before := testkit.TreeOf(t, evil)
	t.Cleanup(func() { require.Equal(t, before, testkit.TreeOf(t, evil), "files outside the image root changed") })
	root = filepath.Join(outside, "tree")
	require.NoError(t, os.Mkdir(root, 0o755))
	return lay(t, root, files), root
}

func shell(t *testing.T, script string) {
	t.Helper()
	testkit.Run(t, "sh", "-ec", script)
}
