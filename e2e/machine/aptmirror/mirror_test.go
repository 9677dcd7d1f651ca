package aptmirror

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const packageFile = "/debian/pool/main/s/socat/socat_1.7.4.4-2_amd64.deb"

// archive is an upstream whose files can be changed between requests.
type archive struct {
	files    sync.Map
	requests atomic.Int64
}

func (a *archive) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.requests.Add(1)
	content, found := a.files.Load(r.URL.Path)
	if !found {
		http.NotFound(w, r)
		return
	}
	io.WriteString(w, content.(string))
}

func start(t *testing.T, upstream http.Handler) (mirror *httptest.Server, origin *httptest.Server, cache string) {
	t.Helper()
	origin = httptest.NewServer(upstream)
	t.Cleanup(origin.Close)
	cache = filepath.Join(t.TempDir(), "cache")
	handler, err := New(cache, Upstream{
		Archives: map[string]string{"debian": origin.URL + "/debian"},
		Proxy:    "DIRECT",
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, handler.Close()) })
	mirror = httptest.NewServer(handler)
	t.Cleanup(mirror.Close)
	return mirror, origin, cache
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := http.Get(url)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

func TestPackagesAreFetchedOnce(t *testing.T) {
	upstream := &archive{}
	upstream.files.Store(packageFile, "a package")
	mirror, _, cache := start(t, upstream)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			status, body := get(t, mirror.URL+packageFile)
			assert.Equal(t, http.StatusOK, status)
			assert.Equal(t, "a package", body)
		})
	}
	group.Wait()
	status, _ := get(t, mirror.URL+packageFile)
	assert.Equal(t, http.StatusOK, status)
	assert.EqualValues(t, 1, upstream.requests.Load())
	entries, err := os.ReadDir(filepath.Join(cache, filepath.Dir(packageFile)))
	require.NoError(t, err)
	assert.Len(t, entries, 1, "temporary files are left")
}

func TestIndexesFollowUpstream(t *testing.T) {
	const index = "/debian/dists/bookworm/InRelease"
	upstream := &archive{}
	upstream.files.Store(index, "one")
	mirror, origin, _ := start(t, upstream)
	_, body := get(t, mirror.URL+index)
	assert.Equal(t, "one", body)
	upstream.files.Store(index, "two")
	_, body = get(t, mirror.URL+index)
	assert.Equal(t, "two", body)

	origin.Close()
	status, body := get(t, mirror.URL+index)
	assert.Equal(t, http.StatusOK, status, "without upstream the last copy is served")
	assert.Equal(t, "two", body)
	status, body = get(t, mirror.URL+packageFile)
	assert.Equal(t, http.StatusBadGateway, status)
	assert.Contains(t, body, "fetching "+origin.URL+packageFile)
}

func TestGoneIndexIsNotServedFromTheCache(t *testing.T) {
	const index = "/debian/dists/bookworm/InRelease"
	upstream := &archive{}
	upstream.files.Store(index, "one")
	mirror, _, _ := start(t, upstream)
	get(t, mirror.URL+index)
	upstream.files.Delete(index)
	status, _ := get(t, mirror.URL+index)
	assert.Equal(t, http.StatusNotFound, status)
}

func TestTruncatedDownloadIsNotKept(t *testing.T) {
	var whole atomic.Bool
	mirror, _, cache := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "9")
		if whole.Load() {
			io.WriteString(w, "a package")
			return
		}
		io.WriteString(w, "a pa")
	}))
	status, _ := get(t, mirror.URL+packageFile)
	assert.Equal(t, http.StatusBadGateway, status)
	entries, err := os.ReadDir(filepath.Join(cache, filepath.Dir(packageFile)))
	require.NoError(t, err)
	assert.Empty(t, entries)
	whole.Store(true)
	status, body := get(t, mirror.URL+packageFile)
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, "a package", body)
}

func TestRefused(t *testing.T) {
	upstream := &archive{}
	upstream.files.Store(packageFile, "a package")
	mirror, _, _ := start(t, upstream)
	get(t, mirror.URL+packageFile)
	tests := map[string]struct {
		method, path string
		status       int
	}{
		"post":            {http.MethodPost, packageFile, http.StatusMethodNotAllowed},
		"no archive":      {http.MethodGet, "/", http.StatusNotFound},
		"unknown archive": {http.MethodGet, "/ubuntu/dists/noble/InRelease", http.StatusNotFound},
		"an archive only": {http.MethodGet, "/debian", http.StatusNotFound},
		"absent":          {http.MethodGet, "/debian/dists/none/InRelease", http.StatusNotFound},
		"a folder":        {http.MethodGet, "/debian/pool/main", http.StatusNotFound},
		"out of the root": {http.MethodGet, "/debian/../../../etc/passwd", http.StatusNotFound},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			request, err := http.NewRequest(test.method, mirror.URL+test.path, strings.NewReader(""))
			require.NoError(t, err)
			response, err := http.DefaultTransport.RoundTrip(request)
			require.NoError(t, err)
			defer response.Body.Close()
			assert.Equal(t, test.status, response.StatusCode)
		})
	}
}

func TestRanges(t *testing.T) {
	upstream := &archive{}
	upstream.files.Store(packageFile, "a package")
	mirror, _, _ := start(t, upstream)
	request, err := http.NewRequest(http.MethodGet, mirror.URL+packageFile, nil)
	require.NoError(t, err)
	request.Header.Set("Range", "bytes=2-")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	assert.Equal(t, http.StatusPartialContent, response.StatusCode)
	assert.Equal(t, "package", string(body))
}
