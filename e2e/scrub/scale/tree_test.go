package scale

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGenerateCountsWhatGoes(t *testing.T) {
	root := t.TempDir()
	entries, err := Generate(root, 1000)
	require.NoError(t, err)
	files, below := 0, 0
	require.NoError(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		if d.Type().IsRegular() {
			files++
		}
		name = strings.TrimPrefix(name, root+"/")
		for _, target := range targets {
			if dir := strings.TrimSuffix(target, "*"); strings.HasPrefix(name, dir) {
				below++
			}
		}
		return nil
	}))
	assert.InDelta(t, 1000, files, 100)
	assert.Equal(t, below, entries)
}
