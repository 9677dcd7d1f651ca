//go:build e2e

package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

// RootWithRPM makes an image root whose database rpm wrote, and returns its folder.
func RootWithRPM(t *testing.T, root string) string {
	t.Helper()
	build := t.TempDir()
	folder := filepath.Join(root, "usr/lib/sysimage/rpm")
	require.NoError(t, os.MkdirAll(folder, 0o755))
	hosttest.Lay(t, root, map[string]string{"var/lib/rpm": "-> /usr/lib/sysimage/rpm", "opt/ours/file": "", "opt/ours/state": "", "opt/ours/ours.conf": "setting\n"})
	testkit.Run(t, "rpmbuild", "-bb", "--quiet", "--define", "_rpmdir "+build,
		"--define", "_topdir "+filepath.Join(build, "top"), "testdata/ours.spec")
	testkit.Run(t, "rpm", "--dbpath", folder, "--initdb")
	testkit.Run(t, "rpm", "--dbpath", folder, "--install", "--justdb", "--nodeps", "--force-debian",
		filepath.Join(build, "noarch/ours-1-1.noarch.rpm"))
	return folder
}

// The database of an image root is read as rpm reads it, without rpm and without a
// change.
func TestRPMDatabaseOfAnImageRoot(t *testing.T) {
	root := t.TempDir()
	folder := RootWithRPM(t, root)
	said, err := exec.CommandContext(t.Context(), "rpm", "--dbpath", folder, "--query", "--all", "--queryformat="+rpmFormat).Output()
	require.NoError(t, err)
	want, err := parseRPMs(string(said))
	require.NoError(t, err)
	h := hosttest.Mounted(t, root)
	before := listing(t, folder)
	t.Setenv("PATH", t.TempDir())

	all, err := RPMs(t.Context(), h)
	require.NoError(t, err)
	assert.Equal(t, want, all)
	owners, err := ReadOwners(t.Context(), h)
	require.NoError(t, err)
	for place, want := range map[string]string{"/opt/ours/file": "ours", "/opt/ours": "ours", "/opt/ours/state": "", "/opt/other": ""} {
		_, owner, err := owners.Below(h, place, true)
		require.NoError(t, err)
		assert.Equal(t, want, owner, place)
	}
	originals, err := ReadOriginals(t.Context(), h)
	require.NoError(t, err)
	assert.Equal(t, []string{"/opt/ours/file", "/opt/ours/ours.conf"}, originals.Places())
	same, err := Same(originals["/opt/ours/ours.conf"], strings.NewReader("setting\n"))
	require.NoError(t, err)
	assert.True(t, same && originals["/opt/ours/ours.conf"][0].Config)
	assert.Equal(t, before, listing(t, folder))

	require.NoError(t, os.WriteFile(filepath.Join(folder, "rpmdb.sqlite"), []byte("no database"), 0o644))
	_, err = ReadOwners(t.Context(), h)
	require.EqualError(t, err, "reading the packages in /var/lib/rpm: "+errDamaged.Error())
}

// listing returns the names and contents of a folder's files.
func listing(t *testing.T, folder string) string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	var all strings.Builder
	for _, e := range entries {
		text := testkit.Content(t, filepath.Join(folder, e.Name()))
		all.WriteString(e.Name() + "\n" + text)
	}
	return all.String()
}
