package supply

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
)

// published starts a registry with an image.
func published(t *testing.T) (reference string, down func()) {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	bare, err := random.Image(1000, 3)
	require.NoError(t, err)
	config, err := bare.ConfigFile()
	require.NoError(t, err)
	one, err := mutate.ConfigFile(bare, &v1.ConfigFile{OS: "linux", Architecture: "amd64", RootFS: config.RootFS})
	require.NoError(t, err)
	tag, err := name.NewTag(strings.TrimPrefix(server.URL, "http://") + "/eks/pause:3.10")
	require.NoError(t, err)
	require.NoError(t, remote.Write(tag, one))
	digest, err := one.Digest()
	require.NoError(t, err)
	return tag.Name() + "@" + digest.String(), server.Close
}

// patience does not wait between attempts.
var patience = asset.Patience{Attempts: 3, Wait: time.Millisecond, Stall: time.Minute}

func store(t *testing.T, images ...string) Store {
	t.Helper()
	return Store{
		Cache: asset.NewCache(t.TempDir(), asset.NewFetcher(patience)), Arch: "amd64", Images: images,
		Download: func(id string) (asset.Download, error) {
			return asset.Download{}, fmt.Errorf("no %s", id)
		},
	}
}

// take reads a supplied file and checks the announced size and sum.
func take(t *testing.T, s Store, w asset.Wanted) (string, *asset.Supplied) {
	t.Helper()
	got, err := s.Supply(t.Context(), w)
	require.NoError(t, err)
	text, err := io.ReadAll(got)
	require.NoError(t, err)
	require.NoError(t, got.Close())
	assert.EqualValues(t, len(text), got.Size)
	assert.Equal(t, manifest.Sum(text), got.SHA256)
	return string(text), got
}

func TestACachedImageNeedsNoRegistry(t *testing.T) {
	reference, down := published(t)
	s := store(t, reference)
	first, got := take(t, s, asset.Wanted{Image: reference, As: "localhost/pause:latest"})
	assert.True(t, strings.HasSuffix(reference, got.Digest), got.Digest)
	down()
	again, _ := take(t, s, asset.Wanted{Image: reference, As: "localhost/pause:latest"})
	assert.Equal(t, first, again)
	scratch, err := os.ReadDir(filepath.Join(cacheOf(t, s), "partial"))
	require.NoError(t, err)
	assert.Empty(t, scratch, "no temporary file remains")
}

// cacheOf finds the folder of a store's cache by its content.
func cacheOf(t *testing.T, s Store) string {
	t.Helper()
	file, err := s.Cache.Scratch()
	require.NoError(t, err)
	require.NoError(t, file.Close())
	return filepath.Dir(filepath.Dir(file.Name()))
}

func TestADamagedBlobIsFetchedAgain(t *testing.T) {
	reference, _ := published(t)
	s := store(t, reference)
	first, _ := take(t, s, asset.Wanted{Image: reference, As: "localhost/pause:latest"})
	kept, err := filepath.Glob(filepath.Join(cacheOf(t, s), "sha256", "*"))
	require.NoError(t, err)
	require.Len(t, kept, 1+1+3)
	for _, name := range kept {
		require.NoError(t, os.WriteFile(name, []byte("damaged"), 0o644))
	}
	again, _ := take(t, s, asset.Wanted{Image: reference, As: "localhost/pause:latest"})
	assert.Equal(t, first, again)
}

func TestAnArchiveIsSearchedBeforeTheRegistry(t *testing.T) {
	reference, down := published(t)
	text, _ := take(t, store(t, reference), asset.Wanted{Image: reference, As: "localhost/pause:latest"})
	down()
	archive := filepath.Join(t.TempDir(), "pause.tar")
	require.NoError(t, os.WriteFile(archive, []byte(text), 0o644))
	s := store(t, reference)
	s.Archives = []string{archive}
	again, _ := take(t, s, asset.Wanted{Image: reference, As: "localhost/pause:latest"})
	assert.Equal(t, text, again)
}

func TestRequestsBeyondTheTemplateAreRefused(t *testing.T) {
	reference, down := published(t)
	text, _ := take(t, store(t, reference), asset.Wanted{Image: reference, As: "localhost/pause:latest"})
	down()
	archive := filepath.Join(t.TempDir(), "pause.tar")
	require.NoError(t, os.WriteFile(archive, []byte(text), 0o644))
	tagged, _, _ := strings.Cut(reference, "@")
	other := tagged + "@sha256:" + strings.Repeat("0", 64)
	s := store(t, other)
	s.Archives = []string{archive}
	for title, test := range map[string]struct {
		wanted asset.Wanted
		words  []string
	}{
		"an image that the template does not name": {asset.Wanted{Image: reference}, []string{fmt.Sprintf("the machine requests the image %q, which the template does not name", reference)}},
		"an asset that the spec does not have":     {asset.Wanted{Asset: "../../etc/shadow"}, []string{"no ../../etc/shadow"}},
		"an image missing in the archive, with the registry down": {asset.Wanted{Image: other}, []string{
			"the image " + other + " is not in " + archive + ", and pulling the image ", "connection refused"}},
	} {
		t.Run(title, func(t *testing.T) {
			_, err := s.Supply(t.Context(), test.wanted)
			require.Error(t, err)
			for _, word := range test.words {
				assert.ErrorContains(t, err, word)
			}
		})
	}
}

func TestAssetsAreServedFromTheCache(t *testing.T) {
	const text = "the kubelet"
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		_, _ = io.WriteString(w, text)
	}))
	defer server.Close()
	s := store(t)
	s.Download = func(id string) (asset.Download, error) {
		if id != "kubelet" {
			return asset.Download{}, errors.New("no " + id)
		}
		return asset.Download{ID: id, Version: "1", URL: server.URL, SHA256: manifest.Sum([]byte(text))}, nil
	}
	for range 2 {
		got, _ := take(t, s, asset.Wanted{Asset: "kubelet"})
		assert.Equal(t, text, got)
	}
	assert.Equal(t, 1, requests)
}
