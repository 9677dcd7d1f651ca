package checks

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var specs = regexp.MustCompile(`(?m)^//go:generate go tool packer-sdc mapstructure-to-hcl2 -type (\S+)$`)

// The HCL specs equal the output of `go generate`. (docs/generate tests the
// generated pages.)
func TestHCLSpecsAreGenerated(t *testing.T) {
	count := 0
	for _, s := range sources(t) {
		found := specs.FindStringSubmatch(s.text)
		if found == nil {
			continue
		}
		count++
		// The generator reads the package in its working folder, and writes next to
		// the file in the variable GOFILE.
		from := filepath.Join(t.TempDir(), path.Base(s.name))
		cmd := exec.CommandContext(t.Context(), "go", "tool", "packer-sdc", "mapstructure-to-hcl2", "-type", found[1])
		cmd.Dir = filepath.Join(root, path.Dir(s.name))
		cmd.Env = append(os.Environ(), "GOFILE="+from)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		want, err := os.ReadFile(strings.TrimSuffix(from, ".go") + ".hcl2spec.go")
		require.NoError(t, err)
		name := strings.TrimSuffix(s.name, ".go") + ".hcl2spec.go"
		assert.Equal(t, string(want), read(t, name), "%s differs from the generated code of %s; run `make generate`", name, s.name)
	}
	assert.NotZero(t, count)
}

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
