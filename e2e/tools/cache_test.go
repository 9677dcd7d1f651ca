package tools

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCacheKeepsNoFailedEntry(t *testing.T) {
	where := cache{folder: t.TempDir()}
	broken := errors.New("compiler on fire")
	_, err := where.entry(t.Context(), "thing", &strings.Builder{}, func(folder string) error {
		require.NoError(t, os.WriteFile(filepath.Join(folder, "half"), nil, 0o644))
		return broken
	})
	require.ErrorIs(t, err, broken)
	assert.Equal(t, []string{"thing.lock"}, names(t, where.folder))

	folder, err := where.entry(t.Context(), "thing", &strings.Builder{}, func(string) error { return nil })
	require.NoError(t, err, "a failed try must release the lock")
	assert.Empty(t, names(t, folder))
}

func TestCacheRemovesFoldersOfKilledProcess(t *testing.T) {
	where := cache{folder: t.TempDir()}
	for _, left := range []string{".thing_1.123", ".thing_12.456"} {
		require.NoError(t, os.MkdirAll(filepath.Join(where.folder, left, "deep"), 0o755))
	}
	_, err := where.entry(t.Context(), "thing_1", &strings.Builder{}, func(string) error { return nil })
	require.NoError(t, err)
	assert.Equal(t, []string{".thing_12.456", "thing_1", "thing_1.lock"}, names(t, where.folder),
		"another key's folder may be in use")
}

func names(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	var all []string
	for _, entry := range entries {
		all = append(all, entry.Name())
	}
	return all
}
