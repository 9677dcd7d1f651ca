//go:build e2e && full

package offline_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
)

// TestHardenedRoot hardens a root by the real oscap and content. The audit finds nothing
// that breaks nodes, neither scanner nor content is left, and later runs change nothing.
func TestHardenedRoot(t *testing.T) {
	b := open(t)
	folder := t.TempDir()
	options := []string{"--hardening", "cis-l2", "--hardening-content", lab.Guide(t), "--report",
		filepath.Join(folder, "report.json")}
	out, err := b.provision(t, options...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	tailoring := testkit.Content(t, filepath.Join(b.root, manifest.TailoringPath))
	t.Logf("%s", []byte(tailoring))
	assert.Contains(t, tailoring, "content_rule_kernel_module_overlayfs_disabled")
	assert.Equal(t, tailoring, testkit.Content(t, filepath.Join(folder, "report.tailoring.xml")))
	blocked := testkit.Glob(t, filepath.Join(b.root, "etc/modprobe.d/cramfs.conf"))
	assert.NotEmpty(t, blocked, "rules that no node needs off are on")

	nothing := func() {
		t.Helper()
		out, err := b.provision(t, options...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.Contains(t, string(out), "DONE: 0 of ")
	}
	nothing()
	said, code := b.eksnode(t, "scrub", "--yes")
	require.Zero(t, code, said)
	for _, rules := range [][]string{nil, {"--rules", "join-breakers"}} {
		said, code = b.eksnode(t, append([]string{"audit"}, rules...)...)
		require.Zero(t, code, said)
	}
	nothing()
	status := testkit.Content(t, filepath.Join(b.root, "var/lib/dpkg/status"))
	for _, gone := range []string{"openscap", "ssg-"} {
		assert.NotContains(t, status, "Package: "+gone)
	}
	for _, gone := range []string{"usr/bin/oscap", "usr/share/xml/scap", "run/eksnode-hardening"} {
		assert.NoDirExists(t, filepath.Join(b.root, gone))
		assert.NoFileExists(t, filepath.Join(b.root, gone))
	}
}
