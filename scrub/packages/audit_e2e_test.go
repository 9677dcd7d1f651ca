//go:build e2e

package packages_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
	"github.com/eksnode/packer-plugin-eksnode/scrub/packages"
)

// An audit of an image root with rpm is the same with and without rpm on the
// workstation. It finds changed files, and fails at a damaged database.
func TestAuditsOfRootsWithRPMNeedNoRPM(t *testing.T) {
	root := t.TempDir()
	folder := packages.RootWithRPM(t, root)
	h := hosttest.Mounted(t, root)
	audit := func() []plan.Planned {
		items, err := scrub.Spec{Only: []string{"changed-files"}}.Items(scrub.ToAudit, nil)
		require.NoError(t, err)
		return plan.Make(t.Context(), h, items)
	}
	assert.Empty(t, audit())

	require.NoError(t, os.WriteFile(filepath.Join(root, "opt/ours/file"), []byte("other"), 0o644))
	with := audit()
	t.Setenv("PATH", t.TempDir())
	assert.Equal(t, with, audit())
	require.Len(t, with, 1)
	assert.Equal(t, []plan.Finding{{Target: "/opt/ours/file", Reason: `differs from the file that the package "ours" installed`}}, with[0].Findings)

	require.NoError(t, os.Truncate(filepath.Join(folder, "rpmdb.sqlite"), 4096))
	damaged := audit()
	require.Len(t, damaged, 1)
	assert.Contains(t, damaged[0].Error, "reading the packages in /var/lib/rpm: the database is damaged")
}
