package tools

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCacheFillsOnce(t *testing.T) {
	where := cache{folder: filepath.Join(t.TempDir(), "made", "on", "demand")}
	var fills atomic.Int32
	fill := func(folder string) error {
		fills.Add(1)
		return os.WriteFile(filepath.Join(folder, "program"), []byte("built"), 0o755)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			folder, err := where.entry(t.Context(), "thing_1", &strings.Builder{}, fill)
			if assert.NoError(t, err) {
				content, err := os.ReadFile(filepath.Join(folder, "program"))
				assert.NoError(t, err)
				assert.Equal(t, "built", string(content))
			}
		})
	}
	group.Wait()
	assert.EqualValues(t, 1, fills.Load(), "each waiter must find the folder of the first")
}

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

func TestLockWaitsAndCanBeInterrupted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "it.lock")
	unlock, err := lock(t.Context(), path, &strings.Builder{})
	require.NoError(t, err)

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the user pressed Ctrl-C"))
	var log strings.Builder
	_, err = lock(ctx, path, &log)
	require.EqualError(t, err, "waiting for the lock "+path+": the user pressed Ctrl-C")
	assert.Equal(t, "waiting for another process that holds "+path+"\n", log.String())

	unlock()
	unlock, err = lock(t.Context(), path, &strings.Builder{})
	require.NoError(t, err)
	unlock()
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
