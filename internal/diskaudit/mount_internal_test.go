//go:build linux

package diskaudit

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
)

// TestTheImageChoosesNoMountOptions mounts file systems whose superblocks ask for much, and
// reads what the kernel does. None of them is damaged: the kernel of this machine would stop.
func TestTheImageChoosesNoMountOptions(t *testing.T) {
	const panics = `; tune2fs -e panic -o debug "$1" > /dev/null; debugfs -w -R "ssv mount_opts errors=panic,noblock_validity,warn_on_error" "$1" 2> /dev/null`
	for name, c := range map[string]struct {
		kind, script string
		copied       bool
		want         string // options of the file system, of mountinfo and of /proc/fs
		not          string
	}{
		"ext2":         {"ext2", `mke2fs -q -t ext2 "$1"` + panics, false, "errors=continue block_validity nowarn_on_error norecovery", "errors=panic"},
		"ext3":         {"ext3", `mke2fs -q -t ext3 "$1"` + panics, false, "errors=continue block_validity nowarn_on_error norecovery", "errors=panic"},
		"ext4":         {"ext4", `mke2fs -q -t ext4 "$1"` + panics, false, "errors=continue block_validity nowarn_on_error norecovery", "errors=panic"},
		"ext4, copied": {"ext4", `mke2fs -q -t ext4 "$1"` + panics, true, "errors=continue block_validity nowarn_on_error", "norecovery errors=panic"},
		"xfs":          {"xfs", `mkfs.xfs -q "$1"`, false, "norecovery noquota nouuid", ""},
		"xfs, copied":  {"xfs", `mkfs.xfs -q "$1"`, true, "noquota nouuid", "norecovery"},
		"btrfs":        {"btrfs", `mkfs.btrfs -q "$1"`, false, "rescue=nologreplay", ""},
	} {
		t.Run(name, func(t *testing.T) {
			path, folder := filepath.Join(t.TempDir(), "part"), t.TempDir()
			require.NoError(t, os.WriteFile(path, nil, 0o600))
			require.NoError(t, os.Truncate(path, 320<<20))
			out, err := exec.Command("sh", "-euc", c.script, "sh", path).CombinedOutput()
			require.NoError(t, err, string(out))
			image, err := disk.Open(path)
			require.NoError(t, err)
			layout, err := image.Layout()
			require.NoError(t, err)
			require.NoError(t, image.Close())
			p := layout.Partitions[0]
			require.Equal(t, c.kind, p.Kind)
			t.Setenv("TMPDIR", folder)
			have := make(chan string)
			go func() { // the thread with the namespace ends with this function
				runtime.LockOSThread()
				have <- mountedAs(source{p, path, c.copied})
			}()
			text := <-have
			options := regexp.MustCompile(`[\s,]+`).Split(text, -1)
			assert.Subset(t, options, strings.Fields(c.want), text)
			assert.Subset(t, options, []string{"ro", "nosuid", "nodev", "noexec"}, text)
			for _, o := range strings.Fields(c.not) {
				assert.NotContains(t, options, o, text)
			}
		})
	}
}

// mountedAs mounts a partition in a namespace of this thread. It returns what the kernel
// says about the mount, or the error.
func mountedAs(p source) string {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return err.Error()
	}
	m := task{Parts: []source{p}}.machine()
	defer m.close()
	if err := m.prepare(); err != nil {
		return err.Error()
	}
	if err := m.mount(p, m.folder, ""); err != nil {
		return err.Error()
	}
	mounts, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return err.Error()
	}
	_, line, _ := strings.Cut(string(mounts), " "+m.folder+" ")
	line, _, _ = strings.Cut(line, "\n")
	all, _ := os.ReadFile(filepath.Join("/proc/fs/ext4", filepath.Base(m.devices[p.Number].Name()), "options"))
	return line + "\n" + string(all)
}
