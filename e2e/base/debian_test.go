package base

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine/aptmirror"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPrepareTakesWhatIsCached(t *testing.T) {
	cache := t.TempDir()
	key, err := newRecipe("bookworm").key()
	require.NoError(t, err)
	want := filepath.Join(cache, "base", key, "root")
	require.NoError(t, os.MkdirAll(want, 0o755))
	var log bytes.Buffer
	for _, suite := range []string{"", "bookworm"} {
		root, err := Debian{Suite: suite, Cache: cache}.Prepare(t.Context(), &log)
		require.NoError(t, err)
		assert.Equal(t, want, root)
	}
	assert.Empty(t, log.String())
}

func TestLockWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "lock")
	unlock, err := lock(t.Context(), path, io.Discard)
	require.NoError(t, err)

	var log bytes.Buffer
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = lock(ended, path, &log)
	assert.ErrorIs(t, err, context.Canceled)
	assert.ErrorContains(t, err, "waiting for "+path)
	assert.Contains(t, log.String(), "waiting for another process")

	second := make(chan error)
	go func() {
		unlock, err := lock(t.Context(), path, io.Discard)
		if err == nil {
			unlock()
		}
		second <- err
	}()
	select {
	case err := <-second:
		t.Fatalf("the lock was given twice (%v)", err)
	default:
	}
	unlock()
	assert.NoError(t, <-second)
}

func TestServe(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.URL.Path)
	}))
	defer origin.Close()
	mirror, err := aptmirror.New(t.TempDir(), aptmirror.Upstream{
		Archives: map[string]string{"debian": origin.URL}, Proxy: "DIRECT",
	})
	require.NoError(t, err)
	defer mirror.Close()
	address, stop, err := serve(mirror)
	require.NoError(t, err)
	response, err := http.Get("http://" + address + "/debian/dists/x")
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, "/dists/x", string(body))
	stop()
	_, err = http.Get("http://" + address + "/debian/dists/x")
	assert.Error(t, err)
}
