//go:build e2e

package node_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// node is a machine that eksnode turns into a node, with a root session that
// stays open.
type node struct {
	*lab.Node
	bench *bench
}

// start boots a machine from the base system.
func (b *bench) start(t *testing.T, id string) *node {
	t.Helper()
	n := &node{b.Start(t, machine.Config{Root: b.Root, InstanceID: id, ReadyWithin: patience}), b}
	n.KeepRoot(t, b.Key)
	require.Equal(t, "running", n.Sh(t, "systemctl is-system-running --wait"))
	return n
}

// ours matches the processes of an agent and its children.
const ours = `pgrep -al -f 'eksnode|apt-get|apt.methods|dpkg|curl|^sudo|gate'`

// leftBehind matches files that no run may leave: the agent's folder and
// partial files. Installed files have no such names.
const leftBehind = `ls -d /tmp/* /var/tmp/* /opt/eksnode-* /root/eksnode-* /home/*/eksnode-* /usr/sbin/policy-rc.d 2>/dev/null | grep -v /systemd-private- || true
find / -xdev \( -path /proc -o -path /sys \) -prune -o \( -name '.*.eksnode-*' -o -name '.eksnode-*' \) -print`

// nothingLeft waits until no process of an ended run remains.
func (n *node) nothingLeft(t *testing.T) {
	t.Helper()
	n.Await(t, "no process of the agent runs", stopping, "! "+ours)
	require.Empty(t, n.Lines(t, leftBehind), "files of the agent")
}

// faulty runs a script that makes the machine faulty. Another script undoes the
// fault when the test ends. Both may be empty.
func (n *node) faulty(t *testing.T, fault, undo string) {
	t.Helper()
	if fault != "" {
		n.Sh(t, fault)
		n.later(t, undo)
	}
}

// replaced makes a file appear with other content, until restore is called.
func (n *node) replaced(t *testing.T, name, content string) (restore func()) {
	t.Helper()
	n.Sh(t, "echo '%s' > /run/replaced; mount --bind /run/replaced %s", content, name)
	return n.later(t, "umount "+name)
}

// later returns a function that runs a script once, at the latest when the test
// ends.
func (n *node) later(t *testing.T, script string) func() {
	t.Helper()
	once := sync.OnceFunc(func() { n.Sh(t, script) })
	t.Cleanup(once)
	return once
}

// treeScript leaves out paths that are not on the disk, and paths that the
// machine itself writes: logs, systemd's clocks on disk and its services'
// temporary folders.
const treeScript = `find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /var/log \
	-o -path /var/lib/systemd/timesync -o -path /var/lib/systemd/timers -o -name 'systemd-private-*' \) -prune \
	-o -type d -printf '%p\t%y %m %U:%G\n' -o -printf '%p\t%y %m %U:%G %s %i %T@ %C@ %l\n'`

// tree returns the properties of each path on the machine's disk. Files include
// the times of their last write and of their last inode change, so that equal
// trees have equal contents. Folders have no times and sizes, because they
// change when a file is added or removed.
func (n *node) tree(t *testing.T) testkit.Tree {
	t.Helper()
	seen := testkit.Tree{}
	for _, line := range n.Lines(t, treeScript) {
		path, attributes, found := strings.Cut(line, "\t")
		require.True(t, found, line)
		seen[path] = attributes
	}
	require.Greater(t, len(seen), 5000, "the listing of the machine's disk is too short")
	return seen
}

// unchanged requires that the machine's disk is unchanged.
func (n *node) unchanged(t *testing.T, before testkit.Tree) {
	t.Helper()
	require.Empty(t, n.tree(t).Since(before), "the machine has changed")
}

// except leaves out the changes that a pattern allows.
func except(changes []string, allowed *regexp.Regexp) []string {
	return slices.DeleteFunc(slices.Clone(changes), allowed.MatchString)
}

// testAssets provisions a machine without a kubelet from every kind of bad
// source. Each time the machine stays unchanged. A good source then completes
// it.
func testAssets(t *testing.T, b *bench, n *node) {
	place := b.place(t, "/kubelet")
	address := b.mirror.URL() + place
	n.Sh(t, "rm /usr/bin/kubelet")
	before := n.tree(t)
	for _, c := range []struct {
		name   string
		source string // b.mirror when empty
		fields string
		faults []mirror.Fault
		words  []string
	}{
		{name: "a mirror that does not listen", source: "http://10.77.0.1:9",
			words: []string{"reaching 10.77.0.1:9", "connection refused", "check that this machine can reach the mirror named by source_url"}},
		{name: "a mirror whose host name is unknown", source: "http://nowhere.eksnode.test",
			words: []string{"reaching nowhere.eksnode.test", "no such host", "source_url"}},
		{name: "a version that does not exist", fields: `kubernetes_version = "1.36.99"`,
			words: []string{"kubelet 1.36.99 does not exist at " + strings.ReplaceAll(address, kubelet, "1.36.99"), "404 Not Found", "check kubernetes_version or what the mirror " + b.mirror.URL() + " holds"}},
		{name: "another content than its checksum", faults: []mirror.Fault{mirror.Replace(place, []byte("no kubelet"))},
			words: []string{"verifying kubelet " + kubelet, "the 10 bytes from " + address, "the checksum file says", "nothing was installed"}},
		{name: "another content than what was pinned", fields: fmt.Sprintf("checksums = { kubelet = %q }", strings.Repeat("0", 64)),
			words: []string{"verifying kubelet " + kubelet, `checksums["kubelet"] says 0000`, "nothing was installed"}},
		{name: "a missing checksum file", faults: []mirror.Fault{mirror.Fail(place+".sha256", 404)},
			words: []string{"the checksum file " + address + ".sha256 is missing", `pin the sum with checksums["kubelet"]`}},
		{name: "a download that is truncated every time", faults: []mirror.Fault{mirror.Truncate(place, 1000)},
			words: []string{"fetching " + address, "cut off after", "try again or check the mirror"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.mirror.Inject(c.faults...)
			defer b.mirror.Heal()
			source := c.source
			if source == "" {
				source = b.mirror.URL()
			}
			b.provision(t, n, source, c.fields).fails(t, append(c.words, "kubelet: fetch /usr/bin/kubelet")...)
			n.unchanged(t, before)
		})
	}
	t.Run("a download that is truncated once is completed", func(t *testing.T) {
		b.mirror.Inject(mirror.Truncate(place, 1000).First(1))
		defer b.mirror.Heal()
		_, items := b.provision(t, n, b.mirror.URL()).succeeds(t).outcome(t)
		assert.Equal(t, "done", string(items["kubelet"]))
		assert.Equal(t, "Kubernetes v"+kubelet, n.Sh(t, "kubelet --version"))
		assert.True(t, slices.ContainsFunc(b.mirror.Requests(), func(r mirror.Request) bool {
			return r.Path == place && strings.HasPrefix(r.Range, "bytes=1000-") && r.Bytes > 1000
		}), "the download must resume where it was truncated: %v", b.mirror.Requests())
	})
	t.Run("a disk that fills up", func(t *testing.T) {
		before := n.tree(t)
		n.Sh(t, "mount -t tmpfs -o size=1m,mode=755 tmpfs /opt/cni/bin")
		b.provision(t, n, b.mirror.URL()).fails(t, "cni-plugins: fetch /opt/cni/bin", "no space left on device",
			"free some space or give the machine a larger disk")
		require.Empty(t, n.Sh(t, "ls -A /opt/cni/bin"), "partial files are left")
		n.Sh(t, "umount /opt/cni/bin")
		n.unchanged(t, before)
	})
	t.Run("a disk that is read-only", func(t *testing.T) {
		before := n.tree(t)
		n.Sh(t, "rm /opt/cni/bin/loopback; mount --bind /opt/cni /opt/cni; mount -o remount,bind,ro /opt/cni")
		b.provision(t, n, b.mirror.URL()).fails(t, "cni-plugins: fetch /opt/cni/bin", "read-only file system", "remount it for writing")
		n.Sh(t, "umount /opt/cni")
		assert.Equal(t, []string{"- /opt/cni/bin/loopback"}, n.tree(t).Since(before))
		b.provision(t, n, b.mirror.URL()).succeeds(t)
		n.Sh(t, "/opt/cni/bin/loopback 2>&1 | grep -q 'CNI loopback plugin'")
	})
}

// TestLocalExample builds the local example on a fresh machine.
func TestLocalExample(t *testing.T) {
	t.Parallel()
	b := open(t)
	n := b.start(t, "i-example")
	template, err := filepath.Abs("../../examples/local")
	require.NoError(t, err)
	address, port, user := n.SSH()
	args := []string{}
	for name, value := range map[string]string{
		"host": address, "port": fmt.Sprint(port), "user": user, "private_key": b.keyFile(),
		"kubernetes_version": kubelet, "source_url": b.mirror.URL(), "allow_http": "true", "reports": b.folder,
	} {
		args = append(args, "-var", name+"="+value)
	}
	b.packer(t, append(append([]string{"validate"}, args...), template)...).succeeds(t)
	r := b.packer(t, append(append([]string{"build", "-color=false"}, args...), template)...).succeeds(t)
	for _, name := range []string{"provision.json", "scrub.json"} {
		r.report = filepath.Join(b.folder, name)
		report, _ := r.outcome(t)
		assert.Equal(t, plan.OK, report.Result, name)
	}
	assert.Contains(t, r.out.String(), "provision ok: ")
	assert.Contains(t, r.out.String(), "scrub ok: ")
	n.nothingLeft(t)
	assert.Contains(t, n.audit(t, 0, ""), "PASS: ")
	assert.Equal(t, "Kubernetes v"+kubelet, n.Sh(t, "kubelet --version"))
	n.Sh(t, "test -s "+manifest.Path)
}
