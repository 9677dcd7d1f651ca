package awsapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"golang.org/x/time/rate"
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

func (e *stalledError) Temporary() bool { return true }

const (
	// mostCalls and leastCalls limit the calls each second. mostCalls is the quota of
	// one snapshot (https://docs.aws.amazon.com/general/latest/gr/ebs-service.html).
	mostCalls  = 1000
	leastCalls = 2
	// slowBy is what a throttling error leaves of the rate, and slowEach is the time
	// until the next one counts: the calls in between were sent at the old rate.
	slowBy   = 0.7
	slowEach = 300 * time.Millisecond
	// speedUp is how much faster the calls become each second, in calls each second.
	speedUp = 20
)

// pacer is a retryer that paces all attempts of a client. Imports that share a quota
// share its rate: a throttling error makes the rate smaller by a part, and success
// makes the rate greater by an amount.
//
// The SDK's adaptive mode does the same, but counts every one of many throttling
// errors at the same time, and falls to one call in two seconds.
type pacer struct {
	aws.RetryerV2
	limit  *rate.Limiter
	mutex  sync.Mutex
	slowed time.Time
}

func newPacer(standard aws.RetryerV2) *pacer {
	return &pacer{RetryerV2: standard, limit: rate.NewLimiter(mostCalls, mostCalls/10)}
}

func (p *pacer) GetAttemptToken(ctx context.Context) (func(error) error, error) {
	if err := p.limit.Wait(ctx); err != nil {
		return nil, err
	}
	return func(err error) error {
		p.ended(err, time.Now())
		return nil
	}, nil
}

// ended changes the rate after an attempt.
func (p *pacer) ended(err error, now time.Time) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	switch is := p.limit.Limit(); {
	case throttled(err):
		if now.Sub(p.slowed) > slowEach {
			p.slowed = now
			p.limit.SetLimit(max(leastCalls, is*slowBy))
		}
	case err == nil:
		p.limit.SetLimit(min(mostCalls, is+speedUp/is))
	}
}

// throttled says that a service wants fewer calls.
func throttled(err error) bool {
	all := append(retry.IsErrorThrottles{retry.ThrottleErrorCode{Codes: crowded}}, retry.DefaultThrottles...)
	return err != nil && all.IsErrorThrottle(err).Bool()
}
