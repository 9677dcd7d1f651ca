//go:build e2e

package node_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// TestOlderPacker builds the local example with the oldest supported packer, on
// a fresh machine.
func TestOlderPacker(t *testing.T) {
	t.Parallel()
	b := open(t)
	n := b.start(t, "i-older")
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
	b.packer(t, older, append(append([]string{"validate"}, args...), template)...).succeeds(t)
	r := b.packer(t, older, append(append([]string{"build", "-color=false"}, args...), template)...).succeeds(t)
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
