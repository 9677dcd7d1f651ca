package asset

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// files lists the files below a folder.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	require.NoError(t, filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			all = append(all, strings.TrimPrefix(name, dir+"/"))
		}
		return err
	}))
	return all
}

func TestTheCacheFetchesOnce(t *testing.T) {
	m := newMirror(t)
	data := noise(large)
	m.put(where, data)
	dir := t.TempDir()
	c := NewCache(dir, hasty())
	for range 2 {
		kept, err := c.Get(t.Context(), m.program(where), quietly)
		require.NoError(t, err)
		assert.Equal(t, Kept{Path: filepath.Join(dir, "sha256", sumOf(data)), Size: large, SHA256: sumOf(data)}, kept)
		got, err := os.ReadFile(kept.Path)
		require.NoError(t, err)
		assert.Equal(t, sumOf(data), sumOf(got))
	}
	assert.Len(t, m.requests(), 4+2, "four pieces, and the checksum file each time")
	assert.Equal(t, []string{"sha256/" + sumOf(data)}, files(t, dir))

	require.NoError(t, os.WriteFile(filepath.Join(dir, "sha256", sumOf(data)), []byte("damaged"), 0o644))
	kept, err := c.Get(t.Context(), m.program(where), quietly)
	require.NoError(t, err)
	got, err := os.ReadFile(kept.Path)
	require.NoError(t, err)
	assert.Equal(t, sumOf(data), sumOf(got), "a damaged file is fetched again")
}

func TestTheCacheResumesInterruptedDownloads(t *testing.T) {
	data := noise(large)
	sum := sumOf(data)
	stop := errors.New("stopped by the person")
	tests := map[string]struct {
		left  func(t *testing.T, dir string) // changes the interrupted file
		first string                         // first request of the next run
	}{
		"unchanged": {func(*testing.T, string) {}, "GET " + where + " bytes="},
		"spoiled": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "partial", sum), noise(pieceSize + 1)[1:], 0o600))
		}, "GET " + where + " bytes=4194304-8388607"},
		"too long": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "partial", sum), noise(2*large), 0o600))
		}, "GET " + where + " bytes=25165826-29360129"},
		"killed in the middle": {func(t *testing.T, dir string) {
			name := filepath.Join(dir, "partial", sum)
			require.NoError(t, os.Rename(name, name+".OLD"))
			require.NoError(t, os.Chtimes(name+".OLD", testTime, testTime))
		}, "GET " + where + " bytes="},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t)
			m.put(where, data)
			ctx, cancel := context.WithCancelCause(t.Context())
			m.faults[where] = m.later(func(_ http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
			})
			dir := t.TempDir()
			f := NewFetcher(UsualPatience())
			_, err := NewCache(dir, f).Get(ctx, m.program(where), func(done, _ int64) {
				if done >= 3<<20 {
					cancel(stop)
				}
			})
			require.ErrorIs(t, err, stop)
			require.Equal(t, []string{"partial/" + sum}, files(t, dir))
			test.left(t, dir)
			next := newMirror(t) // the first server may still get requests that the interrupted run sent ahead
			next.put(where, data)
			kept, err := NewCache(dir, f).Get(t.Context(), next.program(where), quietly)
			require.NoError(t, err)
			got, err := os.ReadFile(kept.Path)
			require.NoError(t, err)
			assert.Equal(t, sum, sumOf(got))
			assert.True(t, strings.HasPrefix(next.requests()[1], test.first), next.requests()[1])
			assert.NotContains(t, next.requests()[1], "bytes=0-")
			assert.Equal(t, []string{"sha256/" + sum}, files(t, dir))
		})
	}
}

func TestTheCacheKeepsNoUnverifiedFile(t *testing.T) {
	m := newMirror(t)
	m.put(where, noise(10))
	d := m.program(where)
	d.SHA256, d.PinnedBy = sumOf(nil), "the lock file"
	dir := t.TempDir()
	_, err := NewCache(dir, hasty()).Get(t.Context(), d, quietly)
	require.EqualError(t, err, "verifying kubelet 1.34.4: the 10 bytes from "+m.URL+where+" have the SHA-256 "+sumOf(noise(10))+", but the lock file says "+sumOf(nil)+
		"; nothing was installed; find out why the file has changed before you update the lock file")
	assert.Empty(t, files(t, dir))
}

func TestConcurrentRunsShareACache(t *testing.T) {
	m := newMirror(t)
	m.put(where, noise(large))
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			_, err := NewCache(dir, hasty()).Get(t.Context(), m.program(where), quietly)
			assert.NoError(t, err)
		})
	}
	all.Wait()
	assert.Equal(t, []string{"sha256/" + sumOf(noise(large))}, files(t, dir))
}

func TestLockRecordsWhereBytesAndSumsCameFrom(t *testing.T) {
	m := newMirror(t)
	data := program("amd64")
	m.put(where, data)
	c := NewCache(t.TempDir(), hasty())
	choice := Choice{Kubernetes: "1.34.4", Arch: "amd64", Source: m.URL, AllowHTTP: true}
	want := lockedKubelet()
	want.Size, want.SHA256, want.FetchedFrom, want.SumFrom = int64(len(data)), sumOf(data), m.URL+where, m.URL+where+".sha256"
	locked, err := c.Lock(t.Context(), kubelet(), choice, quietly)
	require.NoError(t, err)
	assert.Equal(t, want, locked, "url is the publisher's address")

	choice.AllowHTTP, choice.SHA256, want.SumFrom = false, sumOf(data), "checksums"
	locked, err = c.Lock(t.Context(), kubelet(), choice, quietly)
	require.NoError(t, err)
	assert.Equal(t, want, locked)
}

// A refused download is not resumed, so nothing of it stays, also not what an earlier
// run left.
func TestARefusedDownloadLeavesNothing(t *testing.T) {
	m := newMirror(t)
	m.files[where+".sha256"] = []byte(sumOf(nil))
	m.faults[where] = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(mostDownload+1))
		_, _ = w.Write(noise(5000)) // the client hangs up
	}
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "partial"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "partial", sumOf(nil)), noise(1000), 0o600))
	_, err := NewCache(dir, hasty()).Get(t.Context(), m.program(where), quietly)
	require.ErrorIs(t, err, errTooLarge)
	assert.Empty(t, files(t, dir))
}

// testTime is a fixed time in the past.
var testTime = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
