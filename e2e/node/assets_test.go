//go:build e2e

package node_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
)

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
