// Package aptmirror serves Debian's archives to machines that have no way out.
//
// A machine under test knows one fixed address, [Source], and nothing else of
// the world. The harness resolves that name to itself and answers with this
// package's handler, which fetches from the mirror that the host's own apt is
// set up for and keeps everything it fetched on disk. A package is downloaded
// once per host, and a machine whose packages are all in the cache can be
// built without any network.
//
// It is test code: it checks no signatures (apt in the machine does).
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
// reserved .test domain, so it can never be somebody's real host, and it is the
// only trace of the harness in the apt sources of an image made by it.
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

// ServeHTTP answers GET and HEAD with the cached or freshly fetched file. What
// upstream does not have is a 404; an upstream that fails is a 502 unless the
// cache still holds an older copy.
func (m *Mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "only GET and HEAD are served", http.StatusMethodNotAllowed)
		return
	}
	name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
	source, err := m.upstream.locate(name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	if err := m.ensure(r.Context(), name, source); err != nil {
		status := http.StatusBadGateway
		if errors.Is(err, fs.ErrNotExist) {
			status = http.StatusNotFound
		}
		http.Error(w, err.Error(), status)
		return
	}
	m.serve(w, r, name)
}

func (m *Mirror) serve(w http.ResponseWriter, r *http.Request, name string) {
	file, err := m.cache.Open(name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || info.IsDir() {
		http.Error(w, "listings are not served", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", info.ModTime(), file)
}

// ensure makes the cache hold a current copy of name. Requests for the same
// file share one download.
func (m *Mirror) ensure(ctx context.Context, name string, source *url.URL) error {
	_, err := m.cache.Stat(name)
	cached := err == nil
	if cached && immutable(name) {
		return nil
	}
	_, err, _ = m.flights.Do(name, func() (any, error) {
		// A client that goes away must not spoil the download for the others.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchLimit)
		defer cancel()
		return nil, m.fetch(ctx, name, source)
	})
	if err != nil && cached && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// immutable tells files whose name pins their content: package files carry
// their version, and by-hash index files their checksum.
func immutable(name string) bool {
	return strings.Contains(name, "/pool/") || strings.Contains(name, "/by-hash/")
}

// fetch downloads into a temporary file and renames it when it is complete.
func (m *Mirror) fetch(ctx context.Context, name string, source *url.URL) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, source.String(), nil)
	if err != nil {
		return fmt.Errorf("fetching %s: %w", source, err)
	}
	response, err := m.client.Do(request)
	if err != nil {
		return fmt.Errorf("fetching %s: %w", source, err)
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone:
		return fmt.Errorf("fetching %s: %w", source, fs.ErrNotExist)
	default:
		return fmt.Errorf("fetching %s: the mirror answered %s", source, response.Status)
	}
	if err := m.store(name, response); err != nil {
		return fmt.Errorf("fetching %s: %w", source, err)
	}
	return nil
}

func (m *Mirror) store(name string, response *http.Response) (err error) {
	if err := m.cache.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	// The process number keeps two harnesses that share the cache apart.
	temporary := fmt.Sprintf("%s.part-%d", name, os.Getpid())
	file, err := m.cache.Create(temporary)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.cache.Remove(temporary))
		}
	}()
	size, err := io.Copy(file, response.Body)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if response.ContentLength >= 0 && size != response.ContentLength {
		return fmt.Errorf("got %d of %d bytes", size, response.ContentLength)
	}
	if modified, err := http.ParseTime(response.Header.Get("Last-Modified")); err == nil {
		if err := m.cache.Chtimes(temporary, modified, modified); err != nil {
			return err
		}
	}
	return m.cache.Rename(temporary, name)
}
