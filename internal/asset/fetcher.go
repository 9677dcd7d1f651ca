package asset

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Fetcher fetches files over HTTP and HTTPS, and from folders of the machine that
// it runs on. Make one with NewFetcher.
type Fetcher struct {
	client   *http.Client
	attempts int
	wait     time.Duration
	stall    time.Duration
	pieces   sync.Pool // of *[]byte, each with pieceSize bytes
}

// A large file comes in pieces over several connections, because most sites give a
// single connection far less than a machine's bandwidth. On machines with two
// processors more than sixteen connections and more than 4 MiB bring nothing. The
// memory is their product.
const (
	connections = 16
	pieceSize   = 4 << 20
)

// Patience says how long a Fetcher tries.
type Patience struct {
	// Attempts is how often a request for one file is sent, at least once.
	Attempts int
	// Wait is the pause before the second attempt. It doubles with each attempt.
	Wait time.Duration
	// Stall is how long a server may send nothing before an attempt fails.
	Stall time.Duration
}

// UsualPatience survives a short failure of a mirror: five attempts with 7.5
// seconds of waiting in total.
func UsualPatience() Patience {
	return Patience{Attempts: 5, Wait: 500 * time.Millisecond, Stall: time.Minute}
}

// NewFetcher makes a Fetcher. It uses the proxy of the environment (HTTPS_PROXY and
// related variables).
func NewFetcher(p Patience) *Fetcher {
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: 15 * time.Second,
		IdleConnTimeout:     time.Minute,
		MaxIdleConnsPerHost: connections,
		ReadBufferSize:      64 << 10,
		// Not nil turns HTTP/2 off: it would put all pieces on one connection.
		TLSNextProto:       map[string]func(string, *tls.Conn) http.RoundTripper{},
		DisableCompression: true, // the sum is that of the file itself
	}
	return newFetcher(transport, p)
}

func newFetcher(through http.RoundTripper, p Patience) *Fetcher {
	return &Fetcher{
		client: &http.Client{Transport: through, CheckRedirect: keepTLS}, attempts: max(p.Attempts, 1), wait: p.Wait, stall: p.Stall,
		pieces: sync.Pool{New: func() any { b := make([]byte, pieceSize); return &b }},
	}
}

// downgradeError is a redirect from https to http.
type downgradeError struct{ host string }

func (e *downgradeError) Error() string {
	return fmt.Sprintf("the server redirects from https to http at %q, where the file can be replaced on the way", e.host)
}

// Final says that another attempt would get the same redirect.
func (e *downgradeError) Final() bool { return true }

// keepTLS refuses redirects from https to http.
func keepTLS(req *http.Request, via []*http.Request) error {
	if via[len(via)-1].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return &downgradeError{req.URL.Host}
	}
	if len(via) >= mostRedirects {
		return fmt.Errorf("the server redirects more than %d times", mostRedirects)
	}
	return nil
}

// mostRedirects is the limit of package http.
const mostRedirects = 10

// Through is this Fetcher with another transport: wrap gets this Fetcher's
// transport and returns one that, for example, logs in. When an error of that
// transport has a method Final that returns true, the request is not repeated.
func (f *Fetcher) Through(wrap func(http.RoundTripper) (http.RoundTripper, error)) (*Fetcher, error) {
	transport, err := wrap(f.client.Transport)
	if err != nil {
		return nil, err
	}
	return newFetcher(transport, Patience{f.attempts, f.wait, f.stall}), nil
}

// Open opens the file at an address from a byte on. The caller verifies the
// content. After a broken connection a new one fetches the rest.
func (f *Fetcher) Open(ctx context.Context, address string, from int64) (io.ReadCloser, error) {
	return f.open(ctx, address, from)
}

// exists says whether a server has a file at an address.
func (f *Fetcher) exists(ctx context.Context, address string) (bool, error) {
	if isFile(address) {
		file, err := openFile(address, 0)
		if err == nil {
			_ = file.Close() // opened for reading only
		}
		return err == nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, f.stall)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, address, nil)
	if err != nil {
		return false, err
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return false, bare(err)
	}
	_ = resp.Body.Close() // a HEAD's body is empty
	return !absent(resp.StatusCode), nil
}

// bare removes the address from an error of package http. The address may contain a
// password, and callers name the place themselves.
func bare(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
