//go:build e2e && full

package join_test

import (
	_ "embed"
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
