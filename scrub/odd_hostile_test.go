//go:build linux

package scrub

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/templates"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// If a file that rules read is a FIFO, a device, a folder or huge, scrub and audit
// complete and name the file.
func TestIrregularFilesAreNamed(t *testing.T) {
	for kind, lay := range map[string]func(name string) error{
		"fifo":   func(name string) error { return unix.Mkfifo(name, 0o644) },
		"device": func(name string) error { return unix.Mknod(name, unix.S_IFCHR|0o644, int(unix.Mkdev(1, 5))) },
		"folder": func(name string) error { return os.Mkdir(name, 0o755) },
		"huge": func(name string) error {
			return os.WriteFile(name, nil, 0o644)
		},
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
			})
		}
	}
}

// A link to /dev/null masks a configuration file. This is common and no error.
func TestMaskedFilesAreNoError(t *testing.T) {
	h, root := surrounded(t, map[string]string{"etc/passwd": passwd, "dev/": "", "etc/eks/": "", "usr/lib/tmpfiles.d/x.conf": "-> /dev/null", "etc/sysctl.d/x.conf": "-> /dev/null", "var/log/wtmp": ""})
	require.NoError(t, unix.Mknod(filepath.Join(root, "dev/null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	items, err := Spec{Only: []string{"login-records", "kernel-settings"}}.AuditItems(nil)
	require.NoError(t, err)
	assert.Empty(t, plan.Make(t.Context(), h, items))
}

// FuzzHosts removes lines from any hosts(5). The result has only original lines.
func FuzzHosts(f *testing.F) {
	f.Add("127.0.0.1 localhost\n127.0.1.1 old\n")
	f.Add("127.0.1.1\told\n10.0.0.9\tx.example " + templates.HostsMark + "\r\n\x00")
	f.Fuzz(func(t *testing.T, text string) {
		left, why := withoutOwnLines(text)
		again, still := withoutOwnLines(left)
		if again != left || len(still) > 0 || (len(why) == 0) != (left == text) {
			t.Fatalf("%q: %q, %q", left, why, still)
		}
		all := fmt.Sprint(strings.SplitAfter(text, "\n"))
		for _, line := range strings.SplitAfter(left, "\n") {
			if !strings.Contains(all, line) {
				t.Fatalf("the line %q is not in the original", line)
			}
		}
	})
}
