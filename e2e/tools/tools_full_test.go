//go:build full

package tools_test

import (
	"debug/elf"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// Every tool of the table can be downloaded or built, is static if built, and
// comes from the cache the second time. Where the publishers' sites cannot be
// reached, this needs 40 GB of disk.
func TestEveryToolCanBeBuilt(t *testing.T) {
	for _, tool := range tools.Table() {
		for _, version := range tool.Versions {
			t.Run(tool.Name+"@"+version, func(t *testing.T) {
				path, err := tools.Build(t.Context(), tool.Name, version, runtime.GOARCH, t.Output())
				require.NoError(t, err)
				if filepath.Ext(path) != ".tgz" && filepath.Ext(path) != ".gz" && !strings.HasSuffix(filepath.Dir(path), "_released") {
					assertStatic(t, path)
				}
				var log strings.Builder
				again, err := tools.Build(t.Context(), tool.Name, version, runtime.GOARCH, &log)
				require.NoError(t, err)
				assert.Equal(t, path, again)
				assert.Empty(t, log.String())
			})
		}
	}
}

func assertStatic(t *testing.T, path string) {
	t.Helper()
	file, err := elf.Open(path)
	require.NoError(t, err)
	defer file.Close()
	libraries, err := file.ImportedLibraries()
	require.NoError(t, err)
	assert.Empty(t, libraries)
}
