//go:build linux

package diskaudit

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
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
			testkit.Run(t, "sh", "-euc", c.script, "sh", path)
			image, err := disk.Open(path)
			require.NoError(t, err)
			require.NoError(t, image.Close())
			p := image.Layout.Partitions[0]
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

// A disk that the machine unmounts during an audit or a build can be taken out.
func TestUnmountsOfTheMachineReachTheAudit(t *testing.T) {
	at, result := t.TempDir(), make(chan error)
	t.Setenv("TMPDIR", t.TempDir())
	var before, after []byte
	go func() { // the thread with the namespaces ends with this function
		runtime.LockOSThread()
		err := errors.Join(unix.Unshare(unix.CLONE_FS|unix.CLONE_NEWNS),
			unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""), unix.Mount("tmpfs", at, "tmpfs", 0, ""))
		machine, openErr := os.Open("/proc/thread-self/ns/mnt")
		err = errors.Join(err, openErr, unix.Unshare(unix.CLONE_NEWNS), task{}.machine().prepare())
		before, _ = os.ReadFile("/proc/thread-self/mountinfo")
		audit, openErr := os.Open("/proc/thread-self/ns/mnt")
		err = errors.Join(err, openErr, unix.Setns(int(machine.Fd()), unix.CLONE_NEWNS), unix.Unmount(at, 0),
			unix.Setns(int(audit.Fd()), unix.CLONE_NEWNS))
		after, _ = os.ReadFile("/proc/thread-self/mountinfo")
		result <- err
	}()
	require.NoError(t, <-result)
	assert.Contains(t, string(before), " "+at+" ")
	assert.NotContains(t, string(after), " "+at+" ")
}

// TestFstab has lines of many forms (fstab(5)).
func TestFstab(t *testing.T) {
	assert.Equal(t, []place{
		{from: "/etc/fstab line 2", what: "LABEL=a b", where: "/x", options: []string{"defaults", "subvol=@"}},
		{from: "/etc/fstab line 5", what: "/dev/sda2", where: `/a\b`},
	}, fstab("# UUID=1 / ext4\nLABEL=a\\040b\t/x  btrfs defaults,subvol=@ 0 0\n\nUUID=only\n  /dev/sda2 /a\\134b auto\n"))
	assert.Equal(t, "subvol=@", fstab("a /b btrfs x,subvol=@")[0].subvolume())
	assert.Empty(t, fstab("a /b btrfs")[0].subvolume())
}

// TestMountUnit has a unit with spaces, and keys of other sections.
func TestMountUnit(t *testing.T) {
	assert.Equal(t, place{from: "x.mount", what: "/dev/disk/by-label/OEM", where: "/oem", options: []string{"nodev", "ro"}},
		mountUnit("x.mount", "[Unit]\nWhat=1\n# What=2\n[Mount]\nWhat = /dev/disk/by-label/OEM\nWhere=/oem\nOptions=nodev,ro\nType=ext4\n[Install]\nWhere=/y\n"))
}

// TestNames compares the names of fstab with a partition.
func TestNames(t *testing.T) {
	p := disk.Partition{Number: 12, UUID: "c0ffee00-0000-4000-8000-00000000000a", Label: "a b", PartUUID: "12345678-0c", Name: "part"}
	disks := disksOf(nil)
	for what, want := range map[string]bool{
		"UUID=C0FFEE00-0000-4000-8000-00000000000A": true, "UUID=c0ffee": false, "UUID=": false, `LABEL="a b"`: true, "LABEL=A B": false, "LABEL=": false,
		"PARTUUID=12345678-0C": true, "PARTLABEL=part": true, "PARTLABEL=Part": false, "ID=x": false, "part": false, "": false,
		"/dev/disk/by-label/a\\x20b": true, "/dev/disk/by-uuid/c0ffee00-0000-4000-8000-00000000000a": true, "/dev/disk/by-id/nvme-x-part12": false, "/dev/disk/by-label": false,
		"/dev/sda12": true, "/dev/sda1": false, "/dev/sda": false, "/dev/xvda12": true, "/dev/nvme0n1p12": true, "/dev/nvme1n1p12": false, "/dev/sdb12": false, "/dev/mapper/a-b": false,
		"/dev//vda12": true, "/dev/sda99999999999999999999": false,
	} {
		assert.Equal(t, want, names(what, p, disks), what)
	}
	assert.False(t, names("UUID=", disk.Partition{}, disks))
	assert.Equal(t, []string{"/dev/nvme2n1p"}, disksOf([]place{{what: "/dev/nvme2n1p1", where: "/"}}))
}

// FuzzPlaces reads a text as an fstab and as a mount unit.
func FuzzPlaces(f *testing.F) {
	for _, text := range []string{"LABEL=a\\040b /x btrfs subvol=@\n", "[Mount]\nWhat=/dev/disk/by-label/a\\x20b\nWhere=/x\nOptions=bind\n", "/dev/sda1 / ext4\n\\777 \\0 \\x", `UUID="" /`} {
		f.Add(text)
	}
	p := disk.Partition{Number: 1, UUID: "u", Label: "l", PartUUID: "p", Name: "n"}
	f.Fuzz(func(t *testing.T, text string) {
		all := append(fstab(text), mountUnit("x", text))
		disks := disksOf(all)
		require.NotEmpty(t, disks)
		for _, a := range all {
			if names(a.what, p, disks) {
				require.True(t, isDevice(a.what), a.what)
			}
			require.True(t, a.subvolume() == "" || strings.HasPrefix(a.subvolume(), "subvol"))
		}
	})
}
