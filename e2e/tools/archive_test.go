package tools

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPackCNIPlugins(t *testing.T) {
	first, second := layOut(t, []string{"bridge", "loopback", "dhcp"}), layOut(t, []string{"dhcp", "loopback", "bridge"})
	// The files' times and the order of their creation must not matter.
	require.NoError(t, os.Chtimes(filepath.Join(second.programs, "dhcp"), time.Unix(1, 0), time.Unix(2, 0)))
	require.NoError(t, packCNIPlugins(first))
	require.NoError(t, packCNIPlugins(second))
	one, err := os.ReadFile(first.final)
	require.NoError(t, err)
	two, err := os.ReadFile(second.final)
	require.NoError(t, err)
	assert.Equal(t, one, two)

	// GNU tar, as in the shell provisioners that this project replaces.
	command := exec.Command("tar", "--utc", "-tvzf", first.final)
	listing, err := command.CombinedOutput()
	require.NoError(t, err, string(listing))
	assert.Equal(t, "drwxr-xr-x runner/docker     0 2026-02-19 11:31 ./\n"+
		"-rw-r--r-- root/root         7 2026-02-19 11:31 ./LICENSE\n"+
		"-rw-r--r-- root/root         6 2026-02-19 11:31 ./README.md\n"+
		"-rwxr-xr-x root/root         6 2026-02-19 11:31 ./bridge\n"+
		"-rwxr-xr-x root/root         4 2026-02-19 11:31 ./dhcp\n"+
		"-rwxr-xr-x root/root         8 2026-02-19 11:31 ./loopback\n", string(listing))
	content, err := exec.Command("tar", "-xzOf", first.final, "./bridge").Output()
	require.NoError(t, err)
	assert.Equal(t, "bridge", string(content))
}

func TestPackCNIPluginsNeedsTheReleaseTime(t *testing.T) {
	from := layOut(t, []string{"bridge"})
	from.upstream.Info = filepath.Join(t.TempDir(), "none.info")
	require.ErrorContains(t, packCNIPlugins(from), "reading the module's release time: ")
}

func layOut(t *testing.T, plugins []string) archiveSource {
	t.Helper()
	folder := t.TempDir()
	write := func(name, content string) {
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	for _, plugin := range plugins {
		write("programs/"+plugin, plugin)
	}
	write("upstream/LICENSE", "Apache\n")
	write("upstream/README.md", "# CNI\n")
	write("v1.9.1.info", fmt.Sprintf(`{"Version":"v1.9.1","Time":%q}`, "2026-02-19T11:31:52Z"))
	return archiveSource{
		programs: filepath.Join(folder, "programs"),
		upstream: source{Dir: filepath.Join(folder, "upstream"), Info: filepath.Join(folder, "v1.9.1.info")},
		final:    filepath.Join(folder, "cni-plugins.tgz"),
	}
}
