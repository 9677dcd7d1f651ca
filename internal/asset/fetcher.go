package asset

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Fetcher fetches over HTTP and HTTPS, and out of folders of the machine it
// runs on. Make one with NewFetcher.
type Fetcher struct {
	client   *http.Client
	attempts int
	wait     time.Duration
	stall    time.Duration
	pieces   sync.Pool // of *[]byte, pieceSize each
	ahead    ahead
}

// A large file comes in pieces over several connections: most of the sites
// give a single one far less than a machine's line takes. Sixteen of 4 MiB are
// where more brings nothing on machines with two processors, and what they
// take of memory is their product.
const (
	connections = 16
	pieceSize   = 4 << 20
)

// Patience says how long a Fetcher tries.
type Patience struct {
	// Attempts is how often a request is sent for one file, at least once.
	Attempts int
	// Wait is the pause before the second attempt; it doubles with each.
	Wait time.Duration
	// Stall is how long a server may be silent before the attempt is given up.
	Stall time.Duration
}

// UsualPatience rides out a mirror's hiccup: five attempts with 7.5 seconds of
// waiting between them.
func UsualPatience() Patience {
	return Patience{Attempts: 5, Wait: 500 * time.Millisecond, Stall: time.Minute}
}

// NewFetcher makes a Fetcher. It goes through the proxy that the machine's
// environment names (HTTPS_PROXY and its kind).
func NewFetcher(p Patience) *Fetcher {
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: 15 * time.Second,
		IdleConnTimeout:     time.Minute,
		MaxIdleConnsPerHost: connections,
		ReadBufferSize:      64 << 10,
		// HTTP/2 would put all pieces on one connection, and is off when this
		// is not nil.
		TLSNextProto:       map[string]func(string, *tls.Conn) http.RoundTripper{},
		DisableCompression: true, // what is hashed is the file itself
	}
	return newFetcher(transport, p)
}

func newFetcher(through http.RoundTripper, p Patience) *Fetcher {
	return &Fetcher{
		client: &http.Client{Transport: through}, attempts: max(p.Attempts, 1), wait: p.Wait, stall: p.Stall,
		pieces: sync.Pool{New: func() any { b := make([]byte, pieceSize); return &b }},
	}
}

// Through is a Fetcher as patient as this one whose requests go through what
// wrap makes of this one's transport: one that logs in, for example. An error of
// that transport which has a method Final that says true is not tried again.
func (f *Fetcher) Through(wrap func(http.RoundTripper) (http.RoundTripper, error)) (*Fetcher, error) {
	transport, err := wrap(f.client.Transport)
	if err != nil {
		return nil, err
	}
	return newFetcher(transport, Patience{f.attempts, f.wait, f.stall}), nil
}

// Open opens the file at an address from one byte on, for somebody who verifies
// it. A connection that breaks is followed by one for the rest.
func (f *Fetcher) Open(ctx context.Context, address string, from int64) (io.ReadCloser, error) {
	return f.open(ctx, address, from)
}

// exists says whether a server has something at an address.
func (f *Fetcher) exists(ctx context.Context, address string) (bool, error) {
	if isFile(address) {
		file, err := openFile(address, 0)
		if err == nil {
			_ = file.Close() // nothing was written
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

// bare takes the address off an error of package http: it may hold a password,
// and callers name the place themselves.
func bare(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
