// Package aptmirror serves Debian's archives to machines without a route
// outside.
//
// A machine under test has one fixed address in its apt sources, [Source]. The
// harness resolves that name to itself and serves it with this package's
// handler. The handler downloads from the mirror of the host's own apt, and
// keeps all files on disk. If all packages of a machine are in the cache, the
// machine can be built without a network. The handler checks no signatures; apt
// in the machine does.
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
	"os/exec"
	"path"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
)

// Host is the mirror's host name for machines. It lies in the reserved .test
// domain, and is the only trace of the harness in the apt sources of an image.
const Host = "mirror.eksnode.test"

// fetchLimit bounds one download from upstream, so that a stalled mirror
// becomes an error of the machine's apt and not a hang.
const fetchLimit = 10 * time.Minute

// Source returns the URL of an archive ("debian", "debian-security") for the
// machines' apt sources.
func Source(archive string) string { return "http://" + Host + "/" + archive }

// Mirror is the http.Handler for /debian/… and /debian-security/….
type Mirror struct {
	cache    *os.Root
	upstream Upstream
	client   *http.Client
	flights  singleflight.Group
}

// New returns a mirror that keeps downloaded files in the folder cache, and
// creates the folder. Close the mirror after the last request has ended.
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
	// A transparently decompressed Packages.gz would not have the size and checksum
	// of the Release file.
	transport.DisableCompression = true
	return &Mirror{cache: root, upstream: upstream, client: &http.Client{Transport: transport}}, nil
}

// Close releases the cache folder.
func (m *Mirror) Close() error {
	m.client.CloseIdleConnections()
	return m.cache.Close()
}

// ServeHTTP serves a file from the cache or from upstream. A file that upstream
// does not have is a 404. If upstream fails, ServeHTTP serves an older copy
// from the cache, or a 502 without one. Requests for the same file share one
// download.
func (m *Mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
	archive, rest, _ := strings.Cut(name, "/")
	base, known := m.upstream.Archives[archive]
	if !known || rest == "" {
		http.NotFound(w, r)
		return
	}
	_, err := m.cache.Stat(name)
	// These names identify fixed content: by version, or by checksum.
	pinned := strings.Contains(name, "/pool/") || strings.Contains(name, "/by-hash/")
	if cached := err == nil; !cached || !pinned {
		_, err, _ = m.flights.Do(name, func() (any, error) {
			// A client that closes the connection must not end the download for
			// other clients.
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

// fetch downloads into a temporary file and renames the complete file.
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
	// The process number separates two harnesses that share the cache.
	part := fmt.Sprintf("%s.part-%d", name, os.Getpid())
	file, err := m.cache.Create(part)
	if err != nil {
		return err
	}
	// io.Copy returns an error when a body ends before its Content-Length.
	_, err = io.Copy(file, response.Body)
	if err = errors.Join(err, file.Close()); err == nil {
		if modified, err := http.ParseTime(response.Header.Get("Last-Modified")); err == nil {
			_ = m.cache.Chtimes(part, modified, modified) // the time only saves apt a download
		}
		err = m.cache.Rename(part, name)
	}
	if err != nil {
		return errors.Join(err, m.cache.Remove(part))
	}
	return nil
}

// Upstream is the source of the archives, and the proxy to reach it.
type Upstream struct {
	// Archives maps the first part of a request's path to the URL of the archive.
	Archives map[string]string
	// Proxy is apt's Acquire::http::Proxy. It is empty when apt has none, and then
	// the usual proxy variables of the environment count, as in apt. "DIRECT" means
	// no proxy.
	Proxy string
}

// HostUpstream reads mirror and proxy from the host's apt. It uses
// deb.debian.org for archives without a mirror, and on a host without apt.
func HostUpstream(ctx context.Context) (Upstream, error) {
	u := Upstream{Archives: map[string]string{
		"debian": "http://deb.debian.org/debian", "debian-security": "http://deb.debian.org/debian-security",
	}}
	proxy, err := output(ctx, "apt-config", "dump", "--format", "%v%n", "Acquire::http::Proxy")
	if err != nil {
		return u, err
	}
	u.Proxy, _, _ = strings.Cut(proxy, "\n")
	// The labels are those of Debian's Release files.
	for label, archive := range map[string]string{"Debian": "debian", "Debian-Security": "debian-security"} {
		uris, err := output(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Label: "+label)
		if err != nil {
			return u, err
		}
		for uri := range strings.Lines(uris) {
			// apt also has mirror+file:, cdrom: and other methods that HTTP cannot
			// replace.
			if strings.HasPrefix(uri, "http") {
				u.Archives[archive] = strings.TrimSuffix(strings.TrimSpace(uri), "/")
				break
			}
		}
	}
	return u, nil
}

// output runs an apt command. The output is empty on a host without apt.
func output(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil && !errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("reading the host's mirror with %s: %w", name, err)
	}
	return string(out), nil
}

// proxy follows apt: its own setting first, then the environment.
func (u Upstream) proxy(r *http.Request) (*url.URL, error) {
	switch u.Proxy {
	case "":
		return http.ProxyFromEnvironment(r)
	case "DIRECT":
		return nil, nil
	}
	return url.Parse(u.Proxy)
}
