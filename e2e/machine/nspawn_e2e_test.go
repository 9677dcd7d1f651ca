//go:build e2e

package machine_test

import (
	"bufio"
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
	out, err := exec.Command("go", "build", "-o", binary, "./boot").CombinedOutput()
	require.NoError(t, err, string(out))
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
	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	assert.NotContains(t, string(mounts), lab)
	loops, err := exec.Command("losetup", "--list", "--noheadings").Output()
	require.NoError(t, err)
	assert.NotContains(t, string(loops), lab)
	groups, err := exec.Command("find", "/sys/fs/cgroup", "-name", "eksnode-"+filepath.Base(lab)+"*").Output()
	require.NoError(t, err)
	assert.Empty(t, string(groups))
}
