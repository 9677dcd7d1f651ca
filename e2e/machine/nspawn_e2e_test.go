//go:build e2e

package machine_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// limit bounds each test, so that a hang becomes a failure with a console.
const limit = 10 * time.Minute

// logWriter hands the harness's messages to the test's log.
type logWriter struct{ t *testing.T }

func (w logWriter) Write(text []byte) (int, error) {
	w.t.Logf("%s", strings.TrimRight(string(text), "\n"))
	return len(text), nil
}

// bench is an open lab with a key.
type bench struct {
	*machine.Lab
	ctx  context.Context
	root string
	key  machine.Key
}

func open(t *testing.T, kinds ...machine.Kind) *bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	lab, root, err := machine.Open(ctx, logWriter{t}, kinds...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, lab.Close()) })
	key, err := machine.NewKey("e2e")
	require.NoError(t, err)
	return &bench{Lab: lab, ctx: ctx, root: root, key: key}
}

// start starts a machine that the bench's key opens, and reports the time.
func (b *bench) start(t *testing.T, config machine.Config) *machine.Machine {
	t.Helper()
	config.AuthorizedKeys, config.Signer = []string{b.key.Authorized}, b.key.Signer
	begin := time.Now()
	started, err := b.Start(b.ctx, config)
	require.NoError(t, err)
	t.Logf("%s %s: SSH after %s", started.InstanceID(), config.Kind, time.Since(begin).Round(10*time.Millisecond))
	return started
}

// run runs a command that must succeed and returns its trimmed output.
func (b *bench) run(t *testing.T, on *machine.Machine, command string) string {
	t.Helper()
	result, err := on.Run(b.ctx, command, nil)
	require.NoError(t, err)
	require.Zero(t, result.Code, "%s\n%s%s", command, result.Stdout, result.Stderr)
	return strings.TrimSpace(result.Stdout)
}

// timed runs a step that must succeed and reports how long it took.
func timed(t *testing.T, what string, step func() error) {
	t.Helper()
	begin := time.Now()
	require.NoError(t, step())
	t.Logf("%s: %s", what, time.Since(begin).Round(10*time.Millisecond))
}

// settled waits until the machine has started all it wants to start.
const settled = "systemctl is-system-running --wait || { systemctl --failed --no-legend; false; }"

func TestNspawnFromBaseToInstances(t *testing.T) {
	bench := open(t, machine.Nspawn)
	builder := bench.start(t, machine.Config{Kind: machine.Nspawn, Root: bench.root, InstanceID: "i-build"})

	assert.Equal(t, "running", bench.run(t, builder, settled))
	assert.Equal(t, builder.Hostname(), bench.run(t, builder, "hostname"))
	assert.Equal(t, "admin", bench.run(t, builder, "id -un"))
	assert.Equal(t, "root", bench.run(t, builder, "sudo -n id -un"))
	assert.Equal(t, "i-build", bench.run(t, builder, "cat /var/lib/cloud/data/instance-id"))
	result, err := builder.Run(bench.ctx, "cat; echo oops >&2; exit 7", strings.NewReader("from stdin"))
	require.NoError(t, err)
	assert.Equal(t, machine.Result{Stdout: "from stdin", Stderr: "oops\n", Code: 7}, result)

	timed(t, "apt-get update and install", func() error {
		bench.run(t, builder, "sudo apt-get update -q && sudo DEBIAN_FRONTEND=noninteractive apt-get install -yq socat")
		return nil
	})
	bench.run(t, builder, makeOddities)
	oddities := bench.run(t, builder, listOddities)
	for _, want := range []string{
		"owned f 4751 1234:4321 2 ", "dangling l ", "fifo p 600 ", "hole f 644 0:0 1 67108864",
		"cap_net_raw=ep", "b'kept'", "981173106", "group:adm:r-x",
	} {
		assert.Contains(t, oddities, want, "the test's own tree")
	}

	folder := t.TempDir()
	raw, packed := filepath.Join(folder, "image.raw"), filepath.Join(folder, "image.qcow2")
	assert.ErrorContains(t, builder.Capture(bench.ctx, raw), "it is running; power it off first")
	timed(t, "power off", func() error { return builder.PowerOff(bench.ctx) })
	assert.Contains(t, builder.Console(), "has been shut down", "it did not power off in order")
	timed(t, "capture raw", func() error { return builder.Capture(bench.ctx, raw) })
	timed(t, "capture qcow2", func() error { return builder.Capture(bench.ctx, packed) })
	checkImage(t, raw, packed)
	require.NoError(t, builder.Close())

	one := bench.start(t, machine.Config{Image: raw, InstanceID: "i-one"})
	two := bench.start(t, machine.Config{Image: raw, InstanceID: "i-two", Hostname: "node-two"})
	three := bench.start(t, machine.Config{Image: packed, InstanceID: "i-three"})
	hostKeys := map[string]bool{}
	for _, instance := range []*machine.Machine{one, two, three} {
		assert.Equal(t, "running", bench.run(t, instance, settled))
		assert.Equal(t, instance.Hostname(), bench.run(t, instance, "hostname"))
		assert.Equal(t, instance.InstanceID(), bench.run(t, instance, "cat /var/lib/cloud/data/instance-id"))
		assert.Equal(t, "/usr/bin/socat", bench.run(t, instance, "command -v socat"))
		assert.Equal(t, oddities, bench.run(t, instance, listOddities))
		hostKeys[bench.run(t, instance, "cat /etc/ssh/ssh_host_ed25519_key.pub")] = true
	}
	assert.Len(t, hostKeys, 3, "cloud-init makes each instance's host keys")
	bench.run(t, one, "sudo touch /only-on-one")
	bench.run(t, two, "test ! -e /only-on-one")

	// A process of another namespace has the number 0.
	strangers := "find /sys/fs/cgroup -name cgroup.procs -exec cat {} + | grep -cx 0 || true"
	assert.Equal(t, "0", bench.run(t, two, strangers), "machines share their control groups")

	require.NoError(t, one.PowerOff(bench.ctx))
	bench.run(t, two, "true")
	// A busy kernel has not put its former interface away yet.
	octets := one.Address().As4()
	link := fmt.Sprintf("m%d-%d", octets[2], octets[3])
	_ = bench.Command(bench.ctx, "ip", "link", "add", "name", link, "type", "bridge").Run()
	require.NoError(t, bench.Command(bench.ctx, "ip", "link", "show", link).Run())
	require.NoError(t, one.Boot(bench.ctx))
	bench.run(t, one, "test -e /only-on-one")
}

// checkImage checks the file system in a captured image with the tool for it.
func checkImage(t *testing.T, raw, packed string) {
	t.Helper()
	out, err := command("e2fsck", "-fn", raw+"?offset=1048576").CombinedOutput()
	require.NoError(t, err, string(out))
	out, err = command("debugfs", "-R", "ls -p /var/lib/cloud/seed", raw+"?offset=1048576").CombinedOutput()
	require.NoError(t, err, string(out))
	assert.NotContains(t, string(out), "nocloud", "the mount point of the instance data")
	for _, image := range []string{raw, packed} {
		info, err := os.Stat(image)
		require.NoError(t, err)
		t.Logf("%s: %d MiB, on disk %d MiB", filepath.Base(image), info.Size()>>20, onDisk(info)>>20)
	}
	leftOvers, err := filepath.Glob(raw + ".*")
	require.NoError(t, err)
	assert.Empty(t, leftOvers)
}

// What copies of trees tend to lose: owners, modes, times, attributes,
// capabilities, access lists, links, odd names, holes, and deletions from the
// layer below.
const (
	makeOddities = `sudo sh -ec '
mkdir /odd; cd /odd
echo a > "a name, with: odd\\ bytes"
echo b > owned; chown 1234:4321 owned; chmod 4751 owned
ln owned linked
ln -s ../nowhere dangling
mkfifo -m 0600 fifo
cp /bin/true capable; setcap cap_net_raw+ep capable
python3 -c "import os; os.setxattr(\"owned\", \"user.note\", b\"kept\")"
touch -d 2001-02-03T04:05:06Z owned
truncate -s 64M hole
mkdir -m 1777 sticky
rm /etc/debian_version
rm -r /usr/share/bash-completion && mkdir /usr/share/bash-completion'`
	listOddities = `cd /odd && find . -mindepth 1 -printf '%P %y %m %U:%G %n %s %l\n' | sort &&
sudo getcap capable && sudo python3 -c 'import os; print(os.getxattr("owned", "user.note"))' &&
stat -c '%Y %i' owned linked | sort -u | cut -d' ' -f1 &&
test "$(stat -c %b hole)" = 0 && test ! -e /etc/debian_version && ls -A /usr/share/bash-completion | wc -l &&
getfacl -cp /var/log/journal`
)

func TestNspawnHasNoWayOut(t *testing.T) {
	bench := open(t, machine.Nspawn)
	probe := bench.start(t, machine.Config{Root: bench.root, InstanceID: "i-probe"})
	bench.run(t, probe, "getent hosts mirror.eksnode.test")
	for _, command := range []string{
		"getent hosts deb.debian.org",
		"bash -c '</dev/tcp/192.0.2.1/80'",
	} {
		result, err := probe.Run(bench.ctx, command, nil)
		require.NoError(t, err)
		assert.NotZero(t, result.Code, command)
	}
	routes, err := bench.Command(bench.ctx, "ip", "route").Output()
	require.NoError(t, err)
	assert.Equal(t, "10.77.0.0/16 dev br0 proto kernel scope link src 10.77.0.1", strings.TrimSpace(string(routes)))
}

func TestServersOfTheLab(t *testing.T) {
	bench := open(t, machine.Nspawn)
	client := bench.start(t, machine.Config{Root: bench.root, InstanceID: "i-client"})
	metadata := netip.MustParseAddr("169.254.169.254")
	require.NoError(t, bench.AddAddress(bench.ctx, metadata))
	whoami := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RemoteAddr) })
	require.NoError(t, bench.Serve(bench.ctx, "169.254.169.254:80", whoami))
	require.NoError(t, bench.Serve(bench.ctx, client.HostAddress()+":8080", whoami))
	for _, url := range []string{"http://169.254.169.254/", "http://" + client.HostAddress() + ":8080/"} {
		said := bench.run(t, client, "curl -sSf "+url)
		assert.True(t, strings.HasPrefix(said, client.Address().String()+":"), said)
	}
	conn, err := bench.Dial(bench.ctx, "tcp", "169.254.169.254:80")
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	addresses, err := net.InterfaceAddrs()
	require.NoError(t, err)
	assert.NotContains(t, fmt.Sprint(addresses), client.HostAddress(), "the host sees the lab")
	_, err = bench.Listen(bench.ctx, "tcp", "169.254.169.254:80")
	assert.ErrorContains(t, err, "listening in the lab: ")
}

func TestMachinesThatDoNotStart(t *testing.T) {
	bench := open(t, machine.Nspawn)
	_, err := bench.Start(bench.ctx, machine.Config{Root: t.TempDir(), InstanceID: "i-empty"})
	require.Error(t, err)
	assert.ErrorContains(t, err, "waiting for SSH on the machine i-empty: it ended: exit status 1")
	assert.ErrorContains(t, err, "the end of its console:\n")
	assert.ErrorContains(t, err, "doesn't look like")

	_, err = bench.Start(bench.ctx, machine.Config{Root: bench.root, InstanceID: "i-slow", ReadyWithin: time.Millisecond})
	assert.ErrorContains(t, err, "waiting for SSH on the machine i-slow: no SSH within 1ms")

	stranger, err := machine.NewKey("stranger")
	require.NoError(t, err)
	up, err := bench.Start(bench.ctx, machine.Config{
		Root: bench.root, InstanceID: "i-slow", AuthorizedKeys: []string{bench.key.Authorized}, Signer: bench.key.Signer,
	})
	require.NoError(t, err, "the name is free again")
	_, err = bench.Start(bench.ctx, machine.Config{Root: bench.root, InstanceID: "i-slow"})
	assert.ErrorContains(t, err, "is the instance id taken?")
	assert.True(t, up.Running())
	_, err = bench.Start(bench.ctx, machine.Config{
		Root: bench.root, InstanceID: "i-stranger", Signer: stranger.Signer, ReadyWithin: 20 * time.Second,
	})
	assert.ErrorContains(t, err, "unable to authenticate")
	locked, err := bench.Start(bench.ctx, machine.Config{Root: bench.root, InstanceID: "i-locked"})
	require.NoError(t, err, "without a signer, a refusal is readiness")
	require.NoError(t, locked.Kill())
	assert.False(t, locked.Running())
}

func TestLabEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	lab, root, err := machine.Open(ctx, logWriter{t}, machine.Nspawn)
	require.NoError(t, err)
	started, err := lab.Start(ctx, machine.Config{Root: root, InstanceID: "i-interrupted"})
	require.NoError(t, err)
	cancel()
	require.NoError(t, lab.Close())
	assert.False(t, started.Running())
	_, err = lab.Start(context.Background(), machine.Config{Root: root, InstanceID: "i-late"})
	assert.EqualError(t, err, "starting the machine i-late: the lab is closed")
	assertNothingLeft(t, lab.Folder())
}

// TestKilledHarnessLeavesNothingRunning kills the boot command with the signal
// that it cannot notice.
func TestKilledHarnessLeavesNothingRunning(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "boot")
	out, err := command("go", "build", "-o", binary, "./boot").CombinedOutput()
	require.NoError(t, err, string(out))
	victim := command(binary)
	victim.Stderr = logWriter{t}
	stdout, err := victim.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, victim.Start())
	said := bufio.NewScanner(stdout)
	require.True(t, said.Scan())
	folder, found := strings.CutPrefix(said.Text(), "lab: ")
	require.True(t, found, said.Text())
	require.True(t, said.Scan())
	assert.Contains(t, said.Text(), "ready: nsenter")
	family := descendants(t, victim.Process.Pid)
	require.Greater(t, len(family), 10, "the container's processes are missed")
	require.NoError(t, victim.Process.Kill())
	assert.Error(t, victim.Wait())
	assert.Eventually(t, func() bool { return len(alive(family)) == 0 }, time.Minute, 50*time.Millisecond,
		"still running")
	assert.DirExists(t, folder)

	bench := open(t, machine.Nspawn)
	assert.NotEqual(t, folder, bench.Folder())
	assertNothingLeft(t, folder)
}
