package snapshot_test

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/internal/snapshot"
)

// stall is how long a connection may move no data in these tests.
const stall = 200 * time.Millisecond

// hanging is a server that stops in the middle of some calls until the test ends.
type hanging struct {
	next http.Handler
	// method is that of the calls that hang, and left is their number.
	method string
	left   atomic.Int32
	// hangs gets the call, and stops at a point of its own.
	hangs func(http.ResponseWriter, *http.Request)
}

// ServeHTTP implements http.Handler.
func (h *hanging) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	if in.Method == h.method && strings.Contains(in.URL.Path, "/blocks/") && h.left.Add(-1) >= 0 {
		h.hangs(out, in)
		return
	}
	h.next.ServeHTTP(out, in)
}

func TestCallsThatHangAreMadeAgain(t *testing.T) {
	var stop chan struct{}
	for name, one := range map[string]struct {
		method string
		hangs  func(http.ResponseWriter, *http.Request)
	}{
		"put without a response": {"PUT", func(_ http.ResponseWriter, in *http.Request) {
			_, _ = io.Copy(io.Discard, in.Body)
			<-stop
		}},
		"put in the middle of the body": {"PUT", func(_ http.ResponseWriter, in *http.Request) {
			_, _ = io.CopyN(io.Discard, in.Body, 1000)
			<-stop
		}},
		"get without a response": {"GET", func(http.ResponseWriter, *http.Request) { <-stop }},
		"get in the middle of the body": {"GET", func(out http.ResponseWriter, _ *http.Request) {
			for name, value := range map[string]string{"Content-Length": "524288", "X-Amz-Data-Length": "524288", "X-Amz-Checksum-Algorithm": "SHA256"} {
				out.Header().Set(name, value)
			}
			_, _ = out.Write(make([]byte, 1000))
			out.(http.Flusher).Flush()
			<-stop
		}},
	} {
		t.Run(name, func(t *testing.T) {
			double := ebsdirect.New(t.TempDir())
			h := &hanging{next: double, method: one.method, hangs: one.hangs}
			h.left.Store(2)
			a := servedBy(t, double, h, stall)
			stop = make(chan struct{})
			t.Cleanup(func() { close(stop) })
			d := disk{0: 1, 1: 1, 2: 1, 3: 1}
			r, err := upload(t).Run(t.Context(), a, d.source())
			require.NoError(t, err)
			require.Equal(t, d.sums(), double.Blocks(r.Snapshot.ID))
			path := filepath.Join(t.TempDir(), "disk")
			_, err = snapshot.Download{}.Run(t.Context(), a, r.Snapshot.ID, path)
			require.NoError(t, err)
			d.same(t, path)
			require.Negative(t, h.left.Load(), "no call has hung")
		})
	}
}

func TestACallThatAlwaysHangsIsAnError(t *testing.T) {
	stop := make(chan struct{})
	double := ebsdirect.New(t.TempDir())
	h := &hanging{next: double, method: "PUT", hangs: func(http.ResponseWriter, *http.Request) { <-stop }}
	h.left.Store(1 << 20)
	a := servedBy(t, double, h, stall)
	t.Cleanup(func() { close(stop) }) // before the server closes
	u := upload(t)
	_, err := u.Run(t.Context(), a, disk{7: 1}.source())
	require.ErrorContains(t, err, "writing the block 7 of the snapshot snap-")
	require.ErrorContains(t, err, "the connection moved no data for 200ms")
	require.Empty(t, double.IDs())
}

// slow is a server with a slow line, shared by all connections.
type slow struct {
	next http.Handler
	line *rate.Limiter // in kilobytes
}

// ServeHTTP implements http.Handler.
func (s slow) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	in.Body = slowBody{in.Context(), in.Body, s.line}
	s.next.ServeHTTP(out, in)
}

type slowBody struct {
	ctx context.Context
	io.ReadCloser
	line *rate.Limiter
}

// Read implements io.Reader.
func (s slowBody) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p[:min(len(p), 1<<10)])
	_ = s.line.Wait(s.ctx) // fails when the caller is gone
	return n, err
}

// A put takes longer than a connection may stall, but its bytes move.
func TestASlowLineIsNoStall(t *testing.T) {
	double := ebsdirect.New(t.TempDir())
	a := servedBy(t, double, slow{double, rate.NewLimiter(1<<10, 1)}, time.Second)
	d := disk{0: 1, 1: 1, 2: 1, 3: 1}
	r, err := upload(t).Run(t.Context(), a, d.source())
	require.NoError(t, err)
	require.Equal(t, d.sums(), double.Blocks(r.Snapshot.ID))
	require.Equal(t, 4, double.Count().Calls["PutSnapshotBlock"])
}
