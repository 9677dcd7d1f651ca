package mirror

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCached(t *testing.T) {
	root := filepath.Join(t.TempDir(), "kubelet-1.34.4_amd64")
	var log strings.Builder
	first, err := Cached(t.Context(), root, &log, three(t)...)
	require.NoError(t, err)
	assert.Equal(t, "wrote the mirror "+first.Folder+"\n", log.String())
	assert.Equal(t, hash(t, first.Folder), first.Hash)
	assert.Equal(t, filepath.Join(root, first.Hash[:32]), first.Folder)
	assert.Len(t, tree(t, first.Folder), 6)

	log.Reset()
	second, err := Cached(t.Context(), root, &log, three(t)...)
	require.NoError(t, err)
	assert.Empty(t, log.String(), "found as it was written")
	assert.Equal(t, first.Folder, second.Folder)

	other, err := Cached(t.Context(), root, &log, Kubelet("1.34.4", "amd64", write(t, "another build")))
	require.NoError(t, err)
	assert.NotEqual(t, first.Folder, other.Folder)
}

func TestCachedMendsWhatWasChanged(t *testing.T) {
	root := t.TempDir()
	first, err := Cached(t.Context(), root, &strings.Builder{}, three(t)...)
	require.NoError(t, err)
	kubelet := filepath.Join(first.Folder, "dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet")
	require.NoError(t, os.WriteFile(kubelet, []byte("changed"), 0o644))

	var log strings.Builder
	second, err := Cached(t.Context(), root, &log, three(t)...)
	require.NoError(t, err)
	assert.Equal(t, "the mirror "+first.Folder+" has been changed; laying it again\nwrote the mirror "+first.Folder+"\n", log.String())
	assert.Equal(t, first.Hash, hash(t, second.Folder))
}

func TestCachedByManyAtOnce(t *testing.T) {
	root := t.TempDir()
	assets := three(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			mirror, err := Cached(t.Context(), root, &strings.Builder{}, assets...)
			if assert.NoError(t, err) {
				sum, err := Hash(mirror.Folder)
				assert.NoError(t, err)
				assert.Equal(t, mirror.Hash, sum)
			}
		})
	}
	all.Wait()
	left, err := os.ReadDir(root)
	require.NoError(t, err)
	assert.Len(t, left, 1, "no unfinished folder")
}
