//go:build e2e

package machine_test

import (
	"bufio"
	"context"
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

// fromBase builds an image on a machine of that kind from the base system, with
// files that are hard to copy. It captures the image raw and packed, and
// returns the facts that its instances must show.
func fromBase(t *testing.T, l *lab.Lab, kind machine.Kind) (raw, packed, oddities string) {
	t.Helper()
	builder := l.Start(t, machine.Config{Kind: kind, Root: l.Root, InstanceID: "i-build"})
	assert.Equal(t, "running", builder.Sh(t, settled))
	builder.Sh(t, "apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -yq socat")
	builder.Sh(t, makeOddities)
	oddities = builder.Sh(t, listOddities)
	for _, want := range []string{
		"owned f 4751 1234:4321 2 ", "dangling l ", "fifo p 600 ", "hole f 644 0:0 1 67108864",
		"cap_net_raw=ep", "b'kept'", "981173106", "group:adm:r-x",
	} {
		assert.Contains(t, oddities, want, "the test's own files")
	}
	folder := t.TempDir()
	raw, packed = filepath.Join(folder, "image.raw"), filepath.Join(folder, "image.qcow2")
	require.ErrorContains(t, builder.Capture(l.Ctx, raw), "the machine is running; power it off first")
	require.NoError(t, builder.PowerOff(l.Ctx))
	require.NoError(t, builder.Capture(l.Ctx, packed))
	builder.CaptureTo(t, raw)
	out, err := exec.Command("e2fsck", "-fn", raw+"?offset=1048576").CombinedOutput()
	require.NoError(t, err, string(out))
	out, err = exec.Command("debugfs", "-R", "ls -p /var/lib/cloud/seed", raw+"?offset=1048576").CombinedOutput()
	require.NoError(t, err, string(out))
	assert.NotContains(t, string(out), "nocloud", "the mount point of the instance data")
	leftOvers, err := filepath.Glob(raw + ".*")
	require.NoError(t, err)
	assert.Empty(t, leftOvers)
	return raw, packed, oddities
}

// isNew requires that an instance has its own identity and all files of the
// image.
func isNew(t *testing.T, instance *lab.Node, oddities string) {
	t.Helper()
	assert.Equal(t, "running", instance.Sh(t, settled))
	assert.Equal(t, instance.Hostname(), instance.Sh(t, "hostname"))
	assert.Equal(t, instance.InstanceID(), instance.Sh(t, "cat /var/lib/cloud/data/instance-id"))
	assert.Equal(t, "/usr/bin/socat", instance.Sh(t, "command -v socat"))
	assert.Equal(t, oddities, instance.Sh(t, listOddities))
}

func TestNspawnFromBaseToInstances(t *testing.T) {
	l := lab.Open(t, limit, machine.Nspawn)
	raw, packed, oddities := fromBase(t, l, machine.Nspawn)
	one := l.Start(t, machine.Config{Image: raw, InstanceID: "i-one"})
	two := l.Start(t, machine.Config{Image: raw, InstanceID: "i-two", Hostname: "node-two"})
	three := l.Start(t, machine.Config{Image: packed, InstanceID: "i-three"})
	hostKeys := map[string]bool{}
	for _, instance := range []*lab.Node{one, two, three} {
		isNew(t, instance, oddities)
		hostKeys[instance.Sh(t, "cat /etc/ssh/ssh_host_ed25519_key.pub")] = true
	}
	assert.Len(t, hostKeys, 3, "cloud-init must make host keys for each instance")
	one.Sh(t, "touch /only-on-one")
	two.Sh(t, "test ! -e /only-on-one")
	// A process of another namespace has the number 0.
	strangers := "find /sys/fs/cgroup -name cgroup.procs -exec cat {} + | grep -cx 0 || true"
	assert.Equal(t, "0", two.Sh(t, strangers), "machines share their control groups")
	require.NoError(t, one.PowerOff(l.Ctx))
	two.Sh(t, "true")
	require.NoError(t, one.Boot(l.Ctx))
	one.Sh(t, "test -e /only-on-one")
}

// Properties that are hard to copy: owners, modes, times, attributes,
// capabilities, access lists, links, odd names, holes, and deletions from the
// lower layer.
const (
	makeOddities = `mkdir /odd; cd /odd
echo a > "a name, with: odd\ bytes"
echo b > owned; chown 1234:4321 owned; chmod 4751 owned
ln owned linked
ln -s ../nowhere dangling
mkfifo -m 0600 fifo
cp /bin/true capable; setcap cap_net_raw+ep capable
python3 -c 'import os; os.setxattr("owned", "user.note", b"kept")'
touch -d 2001-02-03T04:05:06Z owned
truncate -s 64M hole
mkdir -m 1777 sticky
rm /etc/debian_version
rm -r /usr/share/bash-completion && mkdir /usr/share/bash-completion`
	listOddities = `cd /odd && find . -mindepth 1 -printf '%P %y %m %U:%G %n %s %l\n' | sort &&
getcap capable && python3 -c 'import os; print(os.getxattr("owned", "user.note"))' &&
stat -c '%Y %i' owned linked | sort -u | cut -d' ' -f1 &&
test "$(stat -c %b hole)" = 0 && test ! -e /etc/debian_version && ls -A /usr/share/bash-completion | wc -l &&
getfacl -cp /var/log/journal`
)

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

func TestLabEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	opened, root, err := machine.Open(ctx, t.Output(), machine.Nspawn)
	require.NoError(t, err)
	started, err := opened.Start(ctx, machine.Config{Root: root, InstanceID: "i-interrupted"})
	require.NoError(t, err)
	cancel()
	require.NoError(t, opened.Close())
	assert.False(t, started.Running())
	_, err = opened.Start(context.Background(), machine.Config{Root: root, InstanceID: "i-late"})
	assert.EqualError(t, err, "starting the machine i-late: the lab is closed")
	assertNothingLeft(t, opened.Folder())
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
