// Package aptmirror serves Debian's archives to machines that have no way out.
//
// A machine under test knows one fixed address, [Source]. The harness resolves
// that name to itself and answers with this package's handler, which fetches
// from the mirror that the host's own apt is set up for and keeps everything it
// fetched on disk: a machine whose packages are all in the cache can be built
// without any network. It checks no signatures; apt in the machine does.
package aptmirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
)

// Host is the name under which machines know the mirror. It lies in the
// reserved .test domain, and is the only trace of the harness in the apt sources
// of an image made by it.
const Host = "mirror.eksnode.test"

// fetchLimit bounds one download from upstream, so that a stalled mirror
// becomes an error in the machine's apt and not a hang.
const fetchLimit = 10 * time.Minute

// Source returns the URL of an archive ("debian", "debian-security") as
// machines write it into their apt sources.
func Source(archive string) string { return "http://" + Host + "/" + archive }

// Mirror is the http.Handler that answers /debian/… and /debian-security/….
type Mirror struct {
	cache    *os.Root
	upstream Upstream
	client   *http.Client
	flights  singleflight.Group
}

// New returns a mirror that keeps what it fetches below the folder cache, which
// it creates. Close it when no request is under way any more.
func New(cache string, upstream Upstream) (*Mirror, error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, fmt.Errorf("creating the apt cache: %w", err)
	}
	root, err := os.OpenRoot(cache)
	if err != nil {
		return nil, fmt.Errorf("opening the apt cache: %w", err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = upstream.proxy
	// A transparently decompressed Packages.gz would not have the size and
	// checksum that the Release file states.
	transport.DisableCompression = true
	return &Mirror{cache: root, upstream: upstream, client: &http.Client{Transport: transport}}, nil
}

// Close releases the cache folder.
func (m *Mirror) Close() error {
	m.client.CloseIdleConnections()
	return m.cache.Close()
}

// ServeHTTP answers with the cached or freshly fetched file. What upstream does
// not have is a 404; an upstream that fails is a 502 unless the cache still holds
// an older copy. Requests for the same file share one download.
func (m *Mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
	archive, rest, _ := strings.Cut(name, "/")
	base, known := m.upstream.Archives[archive]
	if !known || rest == "" {
		http.NotFound(w, r)
		return
	}
	_, err := m.cache.Stat(name)
	// These names pin the content: by version, and by checksum.
	pinned := strings.Contains(name, "/pool/") || strings.Contains(name, "/by-hash/")
	if cached := err == nil; !cached || !pinned {
		_, err, _ = m.flights.Do(name, func() (any, error) {
			// A client that goes away must not spoil the download for the others.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), fetchLimit)
			defer cancel()
			return nil, m.fetch(ctx, base+(&url.URL{Path: "/" + rest}).EscapedPath(), name)
		})
		if errors.Is(err, fs.ErrNotExist) {
			http.NotFound(w, r)
			return
		}
		if err != nil && !cached {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeFileFS(w, r, m.cache.FS(), name)
}

// fetch downloads into a temporary file and renames it when it is complete.
func (m *Mirror) fetch(ctx context.Context, source, name string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("fetching %s: %w", source, err)
		}
	}()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, source, nil)
	if err != nil {
		return err
	}
	response, err := m.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone:
		return fs.ErrNotExist
	default:
		return errors.New(response.Status)
	}
	if err := m.cache.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	// The process number keeps two harnesses that share the cache apart.
	part := fmt.Sprintf("%s.part-%d", name, os.Getpid())
	file, err := m.cache.Create(part)
	if err != nil {
		return err
	}
	// A body that ends before its Content-Length is an error of Copy's.
	_, err = io.Copy(file, response.Body)
	if err = errors.Join(err, file.Close()); err == nil {
		if modified, err := http.ParseTime(response.Header.Get("Last-Modified")); err == nil {
			_ = m.cache.Chtimes(part, modified, modified) // it only saves apt a download
		}
		err = m.cache.Rename(part, name)
	}
	if err != nil {
		return errors.Join(err, m.cache.Remove(part))
	}
	return nil
}
