//go:build e2e

package machine_test

import (
	"bufio"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// limit bounds each test.
const limit = 10 * time.Minute

// settled waits until the machine has started all its units.
const settled = "systemctl is-system-running --wait || { systemctl --failed --no-legend; false; }"

func TestNspawnMachineHasNoRouteOutside(t *testing.T) {
	l := lab.Open(t, limit, machine.Nspawn)
	probe := l.Start(t, machine.Config{Root: l.Root, InstanceID: "i-probe"})
	probe.Sh(t, "getent hosts mirror.eksnode.test")
	for _, command := range []string{"getent hosts deb.debian.org", "bash -c '</dev/tcp/192.0.2.1/80'"} {
		assert.NotZero(t, probe.Try(t, command).Code, command)
	}
	routes, err := l.Command(l.Ctx, "ip", "route").Output()
	require.NoError(t, err)
	assert.Equal(t, "10.77.0.0/16 dev br0 proto kernel scope link src 10.77.0.1", strings.TrimSpace(string(routes)))
}

// TestKilledHarnessLeavesNothingRunning sends SIGKILL to the boot command.
func TestKilledHarnessLeavesNothingRunning(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "boot")
	testkit.Run(t, "go", "build", "-o", binary, "./boot")
	victim := exec.Command(binary)
	victim.Stderr = t.Output()
	stdout, err := victim.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, victim.Start())
	said := bufio.NewScanner(stdout)
	require.True(t, said.Scan())
	folder, found := strings.CutPrefix(said.Text(), "lab: ")
	require.True(t, found, said.Text())
	require.True(t, said.Scan())
	assert.Contains(t, said.Text(), "ready: nsenter")
	family := descendants(victim.Process.Pid)
	require.Greater(t, len(family), 10, "the test found no processes of the container")
	require.NoError(t, victim.Process.Kill())
	assert.Error(t, victim.Wait())
	assert.Eventually(t, func() bool { return len(alive(family)) == 0 }, time.Minute, 50*time.Millisecond,
		"still running")
	assert.DirExists(t, folder)

	l := lab.Open(t, limit, machine.Nspawn)
	assert.NotEqual(t, folder, l.Folder())
	assertNothingLeft(t, folder)
}

// descendants returns the child processes of a process, recursively.
func descendants(pid int) []int {
	out, _ := exec.Command("pgrep", "--parent", strconv.Itoa(pid)).Output() // an error means that there are none
	var family []int
	for _, field := range strings.Fields(string(out)) {
		if child, err := strconv.Atoi(field); err == nil {
			family = append(append(family, child), descendants(child)...)
		}
	}
	return family
}

// alive returns the processes that have not ended.
func alive(pids []int) []int {
	var running []int
	for _, pid := range pids {
		if syscall.Kill(pid, 0) == nil {
			running = append(running, pid)
		}
	}
	return running
}

// assertNothingLeft looks for leftovers of a lab on the host.
func assertNothingLeft(t *testing.T, lab string) {
	t.Helper()
	assert.NoDirExists(t, lab)
	assert.NotContains(t, testkit.Content(t, "/proc/self/mounts"), lab)
	loops, err := exec.Command("losetup", "--list", "--noheadings").Output()
	require.NoError(t, err)
	assert.NotContains(t, string(loops), lab)
	groups, err := exec.Command("find", "/sys/fs/cgroup", "-name", "eksnode-"+filepath.Base(lab)+"*").Output()
	require.NoError(t, err)
	assert.Empty(t, string(groups))
}

// hostileDisk makes the ext4 file system $1. One folder in it is damaged, and the
// superblock demands that the kernel panics then. $2 is a command for debugfs.
//
//go:embed testdata/hostile-disk.sh
var hostileDisk string

// auditsHostileDisks is the first process of a virtual machine whose files are all in
// memory. Two disks are audited, one of them with a journal to replay. The mount at the
// end proves that the disks stop a kernel that does what their superblocks demand.
//
//go:embed testdata/audit-disks.sh
var auditsHostileDisks string

// TestAHostileDiskDoesNotStopTheKernel audits disks in a virtual machine, because they
// would stop this one.
func TestAHostileDiskDoesNotStopTheKernel(t *testing.T) {
	l := lab.Open(t, limit, machine.QEMU)
	folder := t.TempDir()
	for name, command := range map[string]string{"clean.raw": "ssv mount_opts errors=panic", "dirty.raw": "feature needs_recovery"} {
		testkit.Run(t, "sh", "-euc", hostileDisk, "sh", filepath.Join(folder, name), command)
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, "init"), []byte(auditsHostileDisks), 0o755))
	modules := testkit.Glob(t, filepath.Join(l.Root, "lib/modules/*/kernel/drivers/block/loop.ko*"))
	require.Len(t, modules, 1)
	testkit.Run(t, "sh", "-euc", `case $1 in *.xz) xz --decompress --stdout "$1";; *) cat "$1";; esac > "$2"`,
		"sh", modules[0], filepath.Join(folder, "loop.ko"))
	for _, file := range []string{lab.Eksnode(t), "/bin/busybox"} {
		testkit.Run(t, "cp", file, folder)
	}
	initrd := filepath.Join(t.TempDir(), "initrd")
	pack := exec.CommandContext(l.Ctx, "sh", "-euc", `find . | /bin/busybox cpio -o -H newc > "$1"`, "sh", initrd)
	pack.Dir = folder
	testkit.Output(t, pack)

	kernel, err := filepath.EvalSymlinks(filepath.Join(l.Root, "vmlinuz"))
	require.NoError(t, err)
	console, err := exec.CommandContext(l.Ctx, "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "qemu64", "-m", "1024",
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio",
		"-kernel", kernel, "-initrd", initrd, "-append", "console=ttyS0 quiet no_timer_check panic=-1 mitigations=off rdinit=/init").CombinedOutput()
	t.Log(string(console))
	require.NoError(t, err)
	assert.Contains(t, string(console), "clean: exit code 2")
	assert.Contains(t, string(console), "dirty: exit code 2")
	assert.Contains(t, string(console), "/srv/broken")
	assert.Contains(t, string(console), "Kernel panic - not syncing: EXT4-fs")
	assert.NotContains(t, string(console), "the kernel survived")
}
