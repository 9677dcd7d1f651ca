package supply

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
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

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
)

// published starts a registry with an image.
func published(t *testing.T) (reference string, down func()) {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	reference, _ = push(t, server, "/eks/pause:3.10", 1000, 3)
	return reference, server.Close
}

func push(t *testing.T, server *httptest.Server, to string, size, layers int64) (string, v1.Image) {
	t.Helper()
	bare, err := random.Image(size, layers)
	require.NoError(t, err)
	config, err := bare.ConfigFile()
	require.NoError(t, err)
	one, err := mutate.ConfigFile(bare, &v1.ConfigFile{OS: "linux", Architecture: "amd64", RootFS: config.RootFS})
	require.NoError(t, err)
	tag, err := name.NewTag(strings.TrimPrefix(server.URL, "http://") + to)
	require.NoError(t, err)
	require.NoError(t, remote.Write(tag, one))
	digest, err := one.Digest()
	require.NoError(t, err)
	return tag.Name() + "@" + digest.String(), one
}

// patience does not wait between attempts.
var patience = asset.Patience{Attempts: 3, Wait: time.Millisecond, Stall: time.Minute}

func store(t *testing.T, images ...string) Store {
	t.Helper()
	return Store{
		Cache: asset.NewCache(t.TempDir(), asset.NewFetcher(patience)), Arch: "amd64", Images: images,
		Download: func(id string) (asset.Download, error) { return asset.Download{}, fmt.Errorf("no %s", id) },
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
	assert.Empty(t, testkit.Names(t, filepath.Join(cacheOf(t, s), "partial")), "no temporary file remains")
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
	kept := testkit.Glob(t, filepath.Join(cacheOf(t, s), "sha256", "*"))
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

const layerSize = 10 << 20

// line is a proxy between a registry and its clients. The proxy supports ranges as
// real registries do, counts the bytes of the layer, and breaks connections.
type line struct {
	inner     http.Handler
	layer     string // digest of the layer
	reference string

	mu      sync.Mutex
	sent    int64 // bytes sent of the layer
	left    int64 // bytes of the layer until the line breaks; -1 means never
	once    bool  // the line breaks once and works again
	noRange atomic.Bool
}

func (l *line) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if l.layer == "" || !strings.HasSuffix(r.URL.Path, "/blobs/"+l.layer) {
		l.inner.ServeHTTP(w, r)
		return
	}
	whole := httptest.NewRecorder()
	l.inner.ServeHTTP(whole, httptest.NewRequest(http.MethodGet, r.URL.Path, nil))
	if l.noRange.Load() {
		r.Header.Del("Range")
	}
	http.ServeContent(&cutting{w, l}, r, "", time.Time{}, bytes.NewReader(whole.Body.Bytes()))
}

// cutting is a response on a line. The server breaks the connection when the
// handler wrote less than it announced.
type cutting struct {
	http.ResponseWriter
	line *line
}

func (c *cutting) Write(p []byte) (int, error) {
	l := c.line
	l.mu.Lock()
	broken := l.left >= 0 && int64(len(p)) > l.left
	if broken {
		p = p[:l.left]
	}
	if l.left >= 0 {
		l.left -= int64(len(p))
	}
	if broken && l.once {
		l.left = -1
	}
	l.sent += int64(len(p))
	l.mu.Unlock()
	n, err := c.ResponseWriter.Write(p)
	if broken {
		panic(http.ErrAbortHandler)
	}
	return n, err
}

// lineTo returns a line to a registry that has an image with one large layer.
func lineTo(t *testing.T) *line {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	l := &line{inner: registry.New(registry.Logger(log.New(io.Discard, "", 0))), left: -1}
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	reference, one := push(t, server, "/team/app:1.2", layerSize, 1)
	layers, err := one.Layers()
	require.NoError(t, err)
	digest, err := layers[0].Digest()
	require.NoError(t, err)
	l.reference, l.layer = reference, digest.String()
	return l
}

func (l *line) breakAfter(bytes int64, once bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left, l.once, l.sent = bytes, once, 0
}

// partials lists the files of interrupted downloads.
func partials(t *testing.T, s Store) []string {
	t.Helper()
	return testkit.Glob(t, filepath.Join(cacheOf(t, s), "partial", "*"))
}

// overhead is how many bytes may be sent twice: bytes in flight on broken
// connections, and pieces requested ahead.
const overhead = 64 << 10

func TestABrokenLayerDownloadResumes(t *testing.T) {
	l := lineTo(t)
	s := store(t, l.reference)
	l.breakAfter(3<<20, true)
	take(t, s, asset.Wanted{Image: l.reference, As: "localhost/app:1"})
	assert.GreaterOrEqual(t, l.sent, int64(layerSize))
	assert.Less(t, l.sent, int64(layerSize+3<<20), "the broken piece is requested again, and not the whole layer")
	assert.Empty(t, partials(t, s))
}

func TestTheNextRunResumesALayer(t *testing.T) {
	for title, harm := range map[string]func(*testing.T, *line, string) (most int64){
		"the kept part is right": func(*testing.T, *line, string) int64 { return layerSize },
		"the kept part belongs to another file": func(t *testing.T, _ *line, file string) int64 {
			text := []byte(testkit.Content(t, file))
			text[0]++
			require.NoError(t, os.WriteFile(file, text, 0o600))
			return 2 * layerSize
		},
		"a registry that sends no ranges": func(_ *testing.T, l *line, _ string) int64 {
			l.noRange.Store(true)
			return layerSize + layerSize/10
		},
	} {
		t.Run(title, func(t *testing.T) {
			l := lineTo(t)
			s := store(t, l.reference)
			l.breakAfter(6<<20, false)
			_, err := s.Supply(t.Context(), asset.Wanted{Image: l.reference, As: "localhost/app:1"})
			require.ErrorContains(t, err, "pulling the image "+l.reference+": ")
			left := partials(t, s)
			require.Len(t, left, 1, "the received part is kept")
			st, err := os.Stat(left[0])
			require.NoError(t, err)
			require.Positive(t, st.Size())
			most := harm(t, l, left[0])
			l.breakAfter(-1, false)
			take(t, s, asset.Wanted{Image: l.reference, As: "localhost/app:1"})
			if title == "the kept part is right" {
				most -= st.Size()
			}
			assert.LessOrEqual(t, l.sent, most+overhead)
			assert.Empty(t, partials(t, s))
		})
	}
}

func TestAForgedLayerIsNotKept(t *testing.T) {
	l := lineTo(t)
	s := store(t, l.reference)
	inner := l.inner
	l.inner = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/blobs/"+l.layer) {
			_, _ = io.WriteString(w, "forged")
			return
		}
		inner.ServeHTTP(w, r)
	})
	_, err := s.Supply(t.Context(), asset.Wanted{Image: l.reference, As: "localhost/app:1"})
	require.ErrorContains(t, err, "verifying the blob "+l.layer+": the content has the SHA-256 ")
	assert.Empty(t, partials(t, s))
}

// A registry that sends more than the manifest's size, without end, does not fill
// the disk.
func TestAnEndlessLayerDoesNotFillTheDisk(t *testing.T) {
	l := lineTo(t)
	sent := atomic.Int64{}
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/blobs/"+l.layer) {
			l.ServeHTTP(w, r)
			return
		}
		for n, err := 0, error(nil); err == nil && sent.Load() < 1<<30; sent.Add(int64(n)) {
			n, err = w.Write(make([]byte, 1<<20))
		}
	}))
	defer endless.Close()
	_, rest, _ := strings.Cut(l.reference, "/")
	reference := strings.TrimPrefix(endless.URL, "http://") + "/" + rest
	s := store(t, reference)
	_, err := s.Supply(t.Context(), asset.Wanted{Image: reference, As: "localhost/app:1"})
	require.ErrorContains(t, err, "verifying the blob "+l.layer+": the content has more than ")
	assert.Less(t, sent.Load(), int64(64<<20), "unread bytes are not sent")
	assert.Empty(t, partials(t, s))
}
