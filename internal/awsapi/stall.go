package awsapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

const (
	// blockStall is how long a connection for blocks may move no byte. The limit is for
	// progress, because a block may take minutes on a slow line.
	blockStall = 20 * time.Second
	// blockConnect is the limit for a connection, and also for the TLS handshake. Many
	// other connections may use the line at the same time.
	blockConnect = 12 * time.Second
	// blockConnections is how many connections for blocks stay open. The SDK closes all
	// but 10 after each call.
	blockConnections = 256
	// writeSize is the size of a write, and of the data that the kernel may keep unsent.
	// With more, a write ends long before its bytes have moved.
	writeSize = 32 << 10
)

// forBlocks changes a client of the SDK for blocks. HTTP/1.1 gives each call a
// connection of its own, so the calls do not share a TCP window.
func forBlocks(b *awshttp.BuildableClient, stall time.Duration) *awshttp.BuildableClient {
	b = b.WithReadTimeout(0) // the limit of stalling counts reads and writes
	dialer := b.GetDialer()
	dialer.Timeout, dialer.Control = blockConnect, unsentControl
	return b.WithTransportOptions(func(t *http.Transport) {
		t.TLSHandshakeTimeout = blockConnect
		t.MaxIdleConns, t.MaxIdleConnsPerHost = blockConnections, blockConnections
		t.Protocols = new(http.Protocols)
		t.Protocols.SetHTTP1(true)
		t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &stalling{Conn: conn, most: stall}, nil
		}
	})
}

// stalling is a connection that fails when no byte moves for a while, in either
// direction.
type stalling struct {
	net.Conn
	most time.Duration
	// over says that a read or a write has stalled. The other one may then fail
	// because the connection is closed.
	over atomic.Bool
}

// Read implements net.Conn.
func (s *stalling) Read(p []byte) (int, error) {
	if err := s.SetReadDeadline(time.Now().Add(s.most)); err != nil {
		return 0, err
	}
	n, err := s.Conn.Read(p)
	return n, s.explain(err)
}

// Write implements net.Conn. Each part gives the response the whole time again.
func (s *stalling) Write(p []byte) (sent int, err error) {
	for part := p; len(part) > 0 && err == nil; part = p[sent:] {
		if err = s.SetDeadline(time.Now().Add(s.most)); err == nil {
			var n int
			n, err = s.Conn.Write(part[:min(writeSize, len(part))])
			sent += n
		}
	}
	return sent, s.explain(err)
}

func (s *stalling) explain(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.over.Store(true)
	}
	if err != nil && s.over.Load() {
		return &stalledError{s.most}
	}
	return err
}

// stalledError says that a server stopped in the middle of a call.
type stalledError struct{ after time.Duration }

func (e *stalledError) Error() string {
	return fmt.Sprintf("the connection moved no data for %s", e.after)
}

// Timeout tells the SDK to try again.
func (e *stalledError) Timeout() bool { return true }

// Temporary implements net.Error.
func (e *stalledError) Temporary() bool { return true }
