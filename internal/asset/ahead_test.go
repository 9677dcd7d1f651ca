package asset

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const second = "/second/runc"

// The server delays the first download until the second is requested. So the test
// ends only if the second download starts before the first ends.
func TestTheNextDownloadIsPrefetched(t *testing.T) {
	m := newMirror(t)
	m.put(where, noise(100_000))
	m.put(second, noise(200_000))
	asked := make(chan struct{})
	m.faults[second] = func(w http.ResponseWriter, r *http.Request) { close(asked); m.serve(w, r) }
	m.faults[where] = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100000")
		_, err := w.Write(noise(100_000)[:10])
		assert.NoError(t, err)
		flush(t, w)
		<-asked
		_, err = w.Write(noise(100_000)[10:])
		assert.NoError(t, err)
	}
	f := NewFetcher(Patience{Attempts: 1, Stall: time.Minute})
	h := newMachine(t, nil)
	next := m.program(second)
	next.ID, next.Target = "runc", "/usr/bin/runc"
	f.Expect(next)
	_, err := Install(t.Context(), h.Host, f, m.program(where), quietly)
	require.NoError(t, err)
	_, err = Install(t.Context(), h.Host, f, next, quietly)
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(h.root, "usr/bin/runc"))
	require.NoError(t, err)
	assert.Equal(t, noise(200_000), got)
	count := 0
	for _, r := range m.requests() {
		if r == "GET "+second+" bytes=0-4194303" {
			count++
		}
	}
	assert.Equal(t, 1, count, "the second download must be requested once")
}

func flush(t *testing.T, w http.ResponseWriter) {
	t.Helper()
	f, ok := w.(http.Flusher)
	require.True(t, ok)
	f.Flush()
}

// A prefetched download that is never installed leaves no files. If the prefetch
// fails, the installation fails.
func TestUnusedAndFailedPrefetches(t *testing.T) {
	m := newMirror(t)
	m.put(where, noise(1000))
	m.put(second, noise(large))
	f := hasty()
	h := newMachine(t, nil)
	f.Expect(m.program(second))
	for range 2 {
		_, err := Install(t.Context(), h.Host, f, m.program(where), quietly)
		require.NoError(t, err)
	}
	got, err := os.ReadFile(filepath.Join(h.root, "usr/bin/kubelet"))
	require.NoError(t, err)
	assert.Equal(t, noise(1000), got)
	f.Expect(m.program("/gone"))
	_, err = Install(t.Context(), h.Host, f, m.program(where), quietly)
	require.NoError(t, err)
	_, err = Install(t.Context(), h.Host, f, m.program("/gone"), quietly)
	require.ErrorContains(t, err, "kubelet 1.34.4 does not exist at "+m.URL+"/gone")
	assert.Equal(t, 1, len(m.requests())-len(slices.DeleteFunc(m.requests(), func(r string) bool { return r == "GET /gone.sha256" })))
}
