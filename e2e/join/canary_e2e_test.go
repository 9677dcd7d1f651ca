//go:build e2e && full

package join_test

import (
	_ "embed"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// plant appends the word to every file that a scrub would remove. It leaves out
// databases, which only their own programs may change; the keys that the test
// logs in with; and the files that running services read.
//
//go:embed testdata/plant.sh
var plant string

// The word is in all state of cluster A's node: from the pod that ran there,
// and planted in every file. After a scrub with wiping, no file of the captured
// disk has the word, and no block except in the file system's journal.
func TestScrubRemovesPlantedWordFromDisk(t *testing.T) {
	w := openWorld(t, lab.System{}, 30*time.Minute)
	dirty, clean := filepath.Join(w.Folder(), "dirty.raw"), filepath.Join(w.Folder(), "clean.raw")
	first := w.launch(firstID, w.image, w.a.role, w.a.amazonScript("--node-labels=cluster=a"))
	w.works(w.a, first, "first", wordOfA)
	w.step("planted in %s files", first.Sh(w.t, "word="+wordOfA+"\n"+plant))
	snapshot(t, first, dirty) // with planted words in its configuration the machine would not boot again
	first.Sh(t, "umount -q /var/lib/cloud/seed/nocloud || true; eksnode scrub --yes --wipe-free-space && eksnode audit")
	first.CaptureTo(t, clean)

	files, blocks := lab.Disk(dirty).Search(t, wordOfA)
	w.step("before the scrub: %d files, %d blocks", len(files), len(blocks))
	assert.Greater(t, len(files), 20)
	assert.Greater(t, len(blocks), 20)

	files, blocks = lab.Disk(clean).Search(t, wordOfA)
	w.step("after the scrub: files %q, blocks by owner %v", files, blocks)
	assert.Empty(t, files)
	for block, owner := range blocks {
		assert.Equal(t, lab.Journal, owner, "block %d", block)
	}
}

// exceptionsFile says what does not pass of the checks of others, and why;
// docs/reference/checks-of-others.md is made of it.
const exceptionsFile = "../../docs/generate/exceptions.json"

// exception is a check of another project that does not pass.
type exception struct {
	Check string
	// Name is the check's name or number, or a common part of several names with
	// one reason.
	Name, Why string
}

// exceptions are the exceptions to one program's checks.
type exceptions struct {
	w    *world
	all  []exception
	used map[string]bool
}

func (w *world) exceptions(check string) *exceptions {
	w.t.Helper()
	all := testkit.JSON[[]exception](w.t, testkit.Content(w.t, exceptionsFile))
	all = slices.DeleteFunc(all, func(e exception) bool { return e.Check != check })
	return &exceptions{w, all, map[string]bool{}}
}

func (e *exceptions) names() []string {
	return show.Each(e.all, func(one exception) string { return one.Name })
}

// allow fails the test when a failing check is no exception.
func (e *exceptions) allow(name, why string) {
	e.w.t.Helper()
	known := false
	e.w.step("%s: %s", name, why)
	for _, one := range e.all {
		if strings.Contains(name, one.Name) {
			known, e.used[one.Name] = true, true
		}
	}
	assert.True(e.w.t, known, "%s: %s", name, why)
}

// close fails the test when a check with an exception passes.
func (e *exceptions) close() {
	e.w.t.Helper()
	for _, one := range e.all {
		assert.True(e.w.t, e.used[one.Name], "%s passes: remove its exception from %s", one.Name, exceptionsFile)
	}
}

// An instance joins after its network failed in the middle of a first boot or
// of provisioning. The interrupted command retries by itself, or fails with the
// cause and succeeds when it runs again.
func TestNetworkCut(t *testing.T) {
	w := openWorld(t, lab.System{}, 30*time.Minute)
	role := "meta-data/iam/security-credentials/" + w.b.role
	for name, c := range map[string]struct {
		id, at   string
		userData []byte
	}{
		"while user data is read, NodeConfig":           {"i-config", "user-data", w.b.nodeConfig()},
		"while the instance is looked up, bootstrap.sh": {"i-script", "meta-data/local-hostname", w.b.bootstrapScript()},
		"while the kubelet fetches its credentials":     {"i-kubelet", role, w.b.nodeConfig()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			i := w.launchCut(c.id, w.image, w.b.role, c.userData, cut{c.at, retried})
			defer w.end(i)
			w.works(w.b, i, c.id, "word-of-b")
		})
	}
	t.Run("until the first boot fails", func(t *testing.T) {
		t.Parallel()
		w.in(t).givesUp("i-long")
	})
	t.Run("in the middle of provisioning, for a while", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		i := w.provisionCut("i-while", retried)
		w.ended(i, true)
		w.provisioned(i)
	})
	t.Run("in the middle of provisioning, until provisioning fails", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		i := w.provisionCut("i-up", w.until("provision.service"))
		said := w.ended(i, false)
		w.step("provisioning without a network prints: %s", said)
		assert.Contains(t, said, "kubelet")
		i.Sh(w.t, "! test -e /usr/bin/kubelet")
		w.provision(i)
		w.ended(i, true)
		w.provisioned(i)
	})
}

// retried is an outage until the machine has lost enough packets to have
// retried.
func retried(_ netip.Addr, lost int) bool { return lost >= 6 }

// until is an outage until one unit of the machine has failed and others have
// ended.
func (w *world) until(failed string, ended ...string) func(netip.Addr, int) bool {
	return func(address netip.Addr, _ int) bool {
		state := func(unit string) string {
			said, err := w.Enter(w.Ctx, address, "systemctl show --property=ActiveState --value "+unit)
			return map[bool]string{true: said}[err == nil]
		}
		goesOn := func(unit string) bool { return slices.Contains([]string{"", "inactive", "activating"}, state(unit)) }
		return state(failed) == "failed" && !slices.ContainsFunc(ended, goesOn)
	}
}

// givesUp cuts off a first boot for longer than it waits: it fails, starts no
// kubelet, and logs the cause. The next boot joins.
func (w *world) givesUp(id string) {
	w.t.Helper()
	i := w.launchCut(id, w.image, w.b.role, w.b.nodeConfig(), cut{"user-data", w.until("eksnode-config.service", "eksnode-run.service")})
	defer w.end(i)
	said := i.Sh(w.t, "journalctl --boot --no-pager --output=cat --unit='eksnode-*'")
	w.step("a first boot without a network prints: %s", said)
	assert.Contains(w.t, said, "asking the instance metadata service for ")
	assert.Equal(w.t, "inactive", i.Sh(w.t, "systemctl is-active kubelet || true"))
	assert.Equal(w.t, "metadata", w.blamed(i))
	require.NoError(w.t, i.PowerOff(w.Ctx))
	require.NoError(w.t, i.Boot(w.Ctx))
	w.works(w.b, i, id, "word-of-b")
}

// provisionCut removes the kubelet from an instance, provisions it again from a
// slow mirror, and cuts its network during the download of the kubelet.
func (w *world) provisionCut(id string, over func(netip.Addr, int) bool) *instance {
	w.t.Helper()
	i := w.launch(id, w.image, w.b.role, nil)
	w.t.Cleanup(func() { w.end(i) })
	i.Sh(w.t, "rm /usr/bin/kubelet")
	w.provision(i)
	i.Await(w.t, "the kubelet is being fetched", patience, "find /usr/bin -name '.kubelet.eksnode-*' -size +1024 | grep -q .")
	mended := make(chan error, 1)
	w.cut(i.Address(), cut{over: over}, mended)
	require.NoError(w.t, <-mended)
	return i
}

func (w *world) provision(i *instance) {
	w.t.Helper()
	i.Sh(w.t, "systemctl reset-failed provision 2> /dev/null || true\nsystemd-run --quiet --unit=provision --property=RemainAfterExit=yes eksnode provision --kubernetes-version "+lab.Kubelet+
		" --source-url "+w.slowMirror()+" --allow-http")
}

// slowMirror serves the node's programs in the lab at a low rate, so that a
// test can interrupt a download.
func (w *world) slowMirror() string {
	w.t.Helper()
	return w.ServeMirror(w.t, w.Port("0"), lab.Assets(w.t).Folder, mirror.Options{BytesPerSecond: 1 << 20}).URL()
}

// ended waits for provisioning to succeed or fail, and returns its output.
func (w *world) ended(i *instance, well bool) string {
	w.t.Helper()
	state := i.Await(w.t, "provisioning has ended", 5*time.Minute, "systemctl is-failed provision || systemctl show --property=SubState --value provision | grep exited")
	said := i.Sh(w.t, "journalctl --boot --no-pager --output=cat --unit=provision | tail -20")
	assert.Equal(w.t, well, !strings.Contains(state, "failed"), said)
	return said
}

// provisioned requires that an image of the instance is clean and joins.
func (w *world) provisioned(i *instance) {
	w.t.Helper()
	image := filepath.Join(w.Folder(), i.InstanceID()+".raw")
	w.scrubbed(i, image)
	w.joinsB("i-of-"+strings.TrimPrefix(i.InstanceID(), "i-"), image, w.b.nodeConfig())
}
