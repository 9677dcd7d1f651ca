//go:build e2e

package join_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
)

// wordOfA is in every file that the pod on the first instance got.
const wordOfA = "word-of-cluster-a-4c1f9e"

// firstID is the id of the instance that joins cluster A.
const firstID = "i-first-4c1f9e"

// The image joins cluster A, runs a pod and is captured twice: unscrubbed and
// scrubbed. An instance of the unscrubbed image contacts cluster A and is
// Unauthorized, although it should join B. Every instance of the scrubbed image
// joins B, by either contract.
func TestChain(t *testing.T) { chain(t, lab.System{}, "chain") }

func chain(t *testing.T, system lab.System, report string) {
	w := openWorld(t, system, 20*time.Minute)
	dirty, clean := filepath.Join(w.Folder(), "dirty.raw"), filepath.Join(w.Folder(), "clean.raw")
	var first *instance
	w.phase("an instance joins cluster A and runs a pod", func() {
		first = w.launch(firstID, w.image, w.a.role, w.a.amazonScript("--node-labels=cluster=a"))
		w.works(w.a, first, "first", wordOfA)
	})
	w.phase("the instance is captured without a scrub, and is Ready again", func() {
		require.NoError(t, first.PowerOff(w.Ctx))
		require.NoError(t, first.Capture(w.Ctx, dirty))
		w.step("captured without a scrub")
		w.reboot(w.a, first)
	})
	w.phase("the instance is scrubbed, powered off and captured", func() { w.scrubbed(first, clean) })
	w.step("captured scrubbed")

	w.phase("an instance of the image without the scrub", func() { t.Run("without the scrub", func(t *testing.T) { w.in(t).unauthorized(dirty) }) })
	w.phase("two instances of the scrubbed image", func() {
		t.Run("scrubbed", func(t *testing.T) { w.in(t).authorized("captured after the scrub", clean) })
	})
	w.report(report)
}

// unauthorized requires that an instance of the unscrubbed image contacts
// cluster A and is refused.
func (w *world) unauthorized(dirty string) {
	// The instance has no user data: its kubelet is enabled and starts as cluster
	// A's node.
	i := w.launch("i-dirty", dirty, w.b.role, nil)
	defer w.end(i)
	said := w.says(i, "Server rejected event .will not retry!.*Unauthorized")
	w.record("captured without the scrub", "none yet", "does not join", said)
	i.Sh(w.t, string(w.b.amazonScript("--node-labels=cluster=b")))
	said = w.says(i, "certificate signed by unknown authority")
	w.record("captured without the scrub", "Amazon's bootstrap.sh", "does not join", said)
	w.b.hasNo(w.t, "node", i.PrivateDNSName)
	assert.Contains(w.t, strings.Join(w.a.authenticator.Refusals(), "\n"),
		"the role nodes-of-"+nameOfB+" of i-dirty is not mapped in the cluster "+nameOfA)
}

// authorized requires that two instances of an image join cluster B, by either
// contract. name is the image's name in the report.
func (w *world) authorized(name, image string) {
	one := w.launch("i-one", image, w.b.role, w.b.nodeConfig())
	defer w.end(one)
	two := w.launch("i-two", image, w.b.role, w.b.bootstrapScript())
	defer w.end(two)
	w.works(w.b, one, "one", "word-of-b-one")
	w.record(name, "NodeConfig", "joins", "")
	w.works(w.b, two, "two", "word-of-b-two")
	w.record(name, "bootstrap.sh", "joins", "")
	w.areStrangers(one, two)
}

// areStrangers requires that two instances of one image share no machine
// identity and have no state of cluster A.
func (w *world) areStrangers(one, two *instance) {
	w.t.Helper()
	var ids []string
	for _, i := range []*instance{one, two} {
		node, err := w.b.node(w.Ctx, i.PrivateDNSName)
		require.NoError(w.t, err)
		assert.Equal(w.t, "aws:///eu-west-1a/"+i.InstanceID(), node.Spec.ProviderID)
		assert.NotContains(w.t, node.Metadata.Labels, "cluster", "a label of cluster A")
		ids = append(ids, node.Status.NodeInfo.MachineID)
		left := i.Sh(w.t, "grep -rlFs -e "+wordOfA+" -e "+nameOfA+" -e "+firstID+" / --exclude-dir=proc --exclude-dir=sys --exclude-dir=run --exclude-dir=dev || true")
		assert.Empty(w.t, left, "files of %s name cluster A", i.InstanceID())
	}
	assert.NotEqual(w.t, ids[0], ids[1])
}
