//go:build linux

package scrub

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

// hostileNames are file names that careless programs handle wrongly.
var hostileNames = []string{"new\nline", "\xff\xfe", "-rf", "* ?", `back\slash [x]`, "..x", " "}

// noted describes all files below a folder: path → kind, mode, owner, and content
// or link target. Sizes and times of folders change with their files and are left
// out.
func noted(t *testing.T, folder string) map[string]string {
	t.Helper()
	got := map[string]string{}
	require.NoError(t, filepath.WalkDir(folder, func(p string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		var st unix.Stat_t
		require.NoError(t, unix.Lstat(p, &st))
		note := fmt.Sprintf("%o %d:%d", st.Mode, st.Uid, st.Gid)
		switch {
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(p)
			require.NoError(t, err)
			note += " -> " + target
		case d.Type().IsRegular():
			text, err := os.ReadFile(p)
			require.NoError(t, err)
			note += " " + string(text)
		}
		if name := strings.TrimPrefix(p, folder); name != "" {
			got[name] = note
		}
		return nil
	}))
	return got
}

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
	outside := t.TempDir()
	evil := filepath.Join(outside, "tree-evil") // starts like the root's name
	require.NoError(t, os.MkdirAll(filepath.Join(evil, "etc"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(evil, "etc/machine-id"), []byte("outside"), 0o644))
	before := noted(t, evil)
	t.Cleanup(func() { require.Equal(t, before, noted(t, evil), "files outside the image root changed") })
	root = filepath.Join(outside, "tree")
	require.NoError(t, os.Mkdir(root, 0o755))
	return lay(t, root, files), root
}

// onDisk is tree on a new ext4 file system of mib MiB without reserved blocks.
func onDisk(t *testing.T, mib int, files map[string]string) (h *host.Host, root string) {
	t.Helper()
	folder := t.TempDir()
	root = filepath.Join(folder, "mnt")
	shell(t, fmt.Sprintf("cd '%s'; mkdir mnt; truncate -s %dM disk; mke2fs -q -F -t ext4 -m 0 disk; mount -o loop disk mnt", folder, mib))
	t.Cleanup(func() { shell(t, "umount '"+root+"'") })
	return lay(t, root, files), root
}

func shell(t *testing.T, script string) {
	t.Helper()
	out, err := exec.Command("sh", "-ec", script).CombinedOutput()
	require.NoError(t, err, "%s: %s", script, out)
}

func output(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).Output()
	require.NoError(t, err, "%v", argv)
	return string(out)
}
