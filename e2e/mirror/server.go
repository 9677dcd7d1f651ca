package mirror

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Options are the properties of the line between the server and its clients.
// The zero value is as fast as the machine.
type Options struct {
	// BytesPerSecond is the bandwidth of each response; 0 for no limit.
	BytesPerSecond int64
	// Latency is the delay before each response.
	Latency time.Duration
}

// Server serves a mirror's folder over HTTP.
type Server struct {
	root    *os.Root
	options Options
	url     string

	mutex    sync.Mutex
	faults   []Fault
	requests []*Request
}

// Request is a line of the server's log. It counts the bytes that the client
// received.
type Request struct {
	Method string
	Path   string // "/HOST/PATH"
	Range  string // the header of that name
	Status int    // 0 until the response's header is written
	Bytes  int64  // bytes of the body
}

// Serve serves folder until the test ends, on a listener such as one in another network namespace.
// Without a listener, it listens on loopback.
func Serve(t testing.TB, listener net.Listener, folder string, options Options) *Server {
	t.Helper()
	root, err := os.OpenRoot(folder)
	require.NoError(t, err)
	s := &Server{root: root, options: options}
	server := httptest.NewUnstartedServer(s)
	if listener != nil {
		require.NoError(t, server.Listener.Close())
		server.Listener = listener
	}
	server.Start()
	s.url = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections() // a killed machine does not close its own
		server.Close()
		assert.NoError(t, root.Close())
	})
	return s
}

// URL returns the server's address without a slash at the end: a mirror's file
// is at URL()/HOST/PATH.
func (s *Server) URL() string { return s.url }

// Requests returns all requests so far, in their order.
func (s *Server) Requests() []Request {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var all []Request
	for _, one := range s.requests {
		all = append(all, *one)
	}
	return all
}

// ServeHTTP serves one request.
func (s *Server) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	line := &Request{Method: in.Method, Path: in.URL.Path, Range: in.Header.Get("Range")}
	s.mutex.Lock()
	s.requests = append(s.requests, line)
	s.mutex.Unlock()
	if !waited(in.Context(), s.options.Latency) {
		return
	}
	logged := &response{ResponseWriter: out, server: s, line: line, keep: -1, ctx: in.Context(), begun: time.Now()}
	fault, faulty := s.fault(in.URL.Path)
	// The HTTP server breaks the connection when a handler has written less than
	// its Content-Length.
	if faulty && fault.cut {
		logged.keep = fault.keep
	}
	switch {
	case !slices.Contains([]string{http.MethodGet, http.MethodHead}, in.Method):
		http.Error(logged, "only GET and HEAD", http.StatusMethodNotAllowed)
	case faulty && fault.status != 0:
		http.Error(logged, http.StatusText(fault.status), fault.status)
	case faulty && fault.replace:
		logged.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(logged, in, "", time.Time{}, bytes.NewReader(fault.content))
	default:
		s.serveFile(logged, in)
	}
}

// waited waits so long. It returns false when the client has closed the connection.
func waited(ctx context.Context, long time.Duration) bool {
	select {
	case <-time.After(long):
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *Server) serveFile(out http.ResponseWriter, in *http.Request) {
	file, err := s.root.Open(strings.TrimPrefix(in.URL.Path, "/"))
	if err != nil {
		http.NotFound(out, in)
		return
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		http.NotFound(out, in)
		return
	}
	out.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(out, in, "", info.ModTime(), file)
}

// response counts and paces the bytes that it passes on, and stops after keep bytes of
// the body. A negative keep is no limit.
type response struct {
	http.ResponseWriter
	server *Server
	line   *Request
	keep   int64
	cut    bool
	ctx    context.Context
	begun  time.Time
}

func (r *response) WriteHeader(status int) {
	r.server.mutex.Lock()
	r.line.Status = status
	r.server.mutex.Unlock()
	r.ResponseWriter.WriteHeader(status)
}

func (r *response) Write(body []byte) (int, error) {
	r.server.mutex.Lock()
	r.line.Status = cmp.Or(r.line.Status, http.StatusOK)
	if r.keep >= 0 && int64(len(body)) > r.keep-r.line.Bytes {
		body = body[:r.keep-r.line.Bytes]
		r.cut = true
	}
	r.line.Bytes += int64(len(body))
	sent := r.line.Bytes
	r.server.mutex.Unlock()
	n, err := r.ResponseWriter.Write(body)
	if rate := r.server.options.BytesPerSecond; rate > 0 {
		due := time.Duration(float64(sent) / float64(rate) * float64(time.Second))
		if !waited(r.ctx, time.Until(r.begun.Add(due))) {
			return n, r.ctx.Err()
		}
	}
	if err == nil && r.cut {
		err = errCut
	}
	return n, err
}

var errCut = errors.New("the response is truncated")

// Unwrap lets http.ResponseController reach the connection.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Fault is a fault of one file of a served mirror.
type Fault struct {
	path    string
	times   int // number of further requests that the fault affects; negative for all
	status  int
	content []byte
	replace bool
	cut     bool
	keep    int64
}

// Fail makes requests for path ("/HOST/PATH") return the HTTP status.
func Fail(path string, status int) Fault {
	return Fault{path: path, times: -1, status: status}
}

// Truncate breaks the connection after the first bytes of path's body. The
// header contains the full length.
func Truncate(path string, bytes int64) Fault {
	return Fault{path: path, times: -1, cut: true, keep: bytes}
}

// Replace serves content at path, instead of the file or where there is none.
func Replace(path string, content []byte) Fault {
	return Fault{path: path, times: -1, content: slices.Clone(content), replace: true}
}

// First returns the same fault, limited to the next requests for its path.
func (f Fault) First(requests int) Fault {
	f.times = requests
	return f
}

// Inject activates the faults from the next request on. Of several faults on
// one path, the first injected one is used up first.
func (s *Server) Inject(faults ...Fault) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.faults = append(s.faults, faults...)
}

// Heal ends all faults.
func (s *Server) Heal() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.faults = nil
}

func (s *Server) fault(path string) (Fault, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for i := range s.faults {
		one := &s.faults[i]
		if one.path != path || one.times == 0 {
			continue
		}
		one.times = max(one.times-1, -1)
		return *one, true
	}
	return Fault{}, false
}
