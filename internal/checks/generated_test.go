package checks

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// distros/all.go lists all distributions that have a file.
func TestListOfDistributionsMatchesFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "list")
	run(t, "go", "build", "-o", name, "./distros/list")
	folder := t.TempDir()
	files, err := filepath.Glob(filepath.Join(root, "distros", "*.go"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		write(t, filepath.Join(folder, filepath.Base(file)), string(text))
	}
	cmd := exec.CommandContext(t.Context(), name)
	cmd.Dir = folder
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, string(said))
	want, err := os.ReadFile(filepath.Join(folder, "all.go"))
	require.NoError(t, err)
	assert.Equal(t, string(want), read(t, "distros/all.go"), "run `make generate`")
}
