//go:build e2e && full

package join_test

import (
	_ "embed"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
)

// plainScript hardens a node by the whole script of a profile. The first database of aide
// takes minutes.
//
//go:embed testdata/plain.sh
var plainScript string

// A node that the whole script of CIS hardened fails for the reason that the audit names:
// the firewall drops what the API server sends. Without that setting it works.
func TestPlainHardeningBreaksTheNodeAsNamed(t *testing.T) {
	w := openWorld(t, lab.System{}, time.Hour)
	i := w.launch("i-plain", w.image, w.b.role, nil)
	defer w.end(i)
	i.Upload(t, lab.Guide(t), "/run/guide.xml")
	enter := func(script string) string {
		said, err := w.Enter(w.Ctx, i.Address(), script)
		require.NoError(t, err)
		w.step("%.3000s", said)
		return said
	}
	assert.Contains(t, enter(plainScript), "host-firewall")
	enter(string(w.b.bootstrapScript()))
	n, err := w.b.joined(w.Ctx, i.PrivateDNSName, time.Time{}, patience)
	require.NoError(t, err)
	require.NoError(t, w.b.runs(w.Ctx, "plain", n, "word"))
	_, err = w.b.kubectl(w.Ctx, "", "logs", "plain")
	w.step("%v", err)
	assert.ErrorContains(t, err, ":10250: ")
	enter("ufw disable")
	assert.Equal(t, "word from word", w.b.await(t, "logs", "plain"))
}

// A running machine is hardened by eksnode. Its image joins by both contracts, runs pods,
// and survives a restart.
func TestHardenedImageJoins(t *testing.T) {
	w := openWorld(t, lab.System{}, time.Hour)
	image := filepath.Join(w.Folder(), "hardened.raw")
	i := w.launch("i-maker", w.image, "nobody", nil)
	i.KeepRoot(t, w.Key)
	i.Upload(t, lab.Guide(t), "/run/guide.xml")
	w.step("%s", i.Sh(t, `eksnode provision --hardening cis-l1 --hardening-content /run/guide.xml \
  --hardening-exceptions aide_build_database='the first database takes minutes' --source-url %s --allow-http \
  --kubernetes-version %s`, w.slowMirror(), lab.Kubelet))
	w.scrubbed(i, image)

	one := w.launch("i-one", image, w.b.role, w.b.nodeConfig())
	defer w.end(one)
	w.works(w.b, one, "one", "word-of-b")
	w.reboot(w.b, one)
	w.works(w.b, one, "again", "word-after-the-restart")
	w.joinsB("i-two", image, w.b.bootstrapScript())
}
