package mirror

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options are the properties of the line between the server and its clients.
// The zero value is as fast as the machine.
type Options struct {
	// BytesPerSecond is the bandwidth of each connection's responses; 0 for no
	// limit.
	BytesPerSecond int64
	// Latency is the delay before each response.
	Latency time.Duration
}

// Server serves a mirror's folder over HTTP.
type Server struct {
	root    *os.Root
	options Options
	server  *http.Server
	address net.Addr
	unwatch func() bool
	served  chan struct{} // closed once serveErr is final

	mutex    sync.Mutex
	faults   []Fault
	requests []*Request
	serveErr error
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

// Serve serves folder at the address addr ("127.0.0.1:0" for any free port)
// until the context is done or Close is called.
func Serve(ctx context.Context, addr, folder string, options Options) (*Server, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("serving the mirror %s: %w", folder, err)
	}
	return ServeOn(ctx, listener, folder, options)
}

// ServeOn serves like Serve, on a listener of the caller, such as one in
// another network namespace. The server closes the listener, also when it
// fails.
func ServeOn(ctx context.Context, listener net.Listener, folder string, options Options) (*Server, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("serving the mirror: %w", err), listener.Close())
	}
	s := &Server{root: root, options: options, address: listener.Addr(), served: make(chan struct{})}
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	if options.BytesPerSecond > 0 {
		listener = pacedListener{listener, options.BytesPerSecond}
	}
	go func() {
		defer close(s.served)
		if err := s.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.serveErr = fmt.Errorf("serving the mirror %s: %w", folder, err)
		}
	}()
	s.unwatch = context.AfterFunc(ctx, func() { s.server.Close() })
	return s, nil
}

// URL returns the server's address without a slash at the end: a mirror's file
// is at URL()/HOST/PATH.
func (s *Server) URL() string { return "http://" + s.address.String() }

// Close ends the server and its connections and returns the error of serving.
func (s *Server) Close() error {
	s.unwatch()
	err := s.server.Close()
	<-s.served
	return errors.Join(s.serveErr, err, s.root.Close())
}

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
	if !s.wait(in.Context()) {
		return
	}
	logged := &response{ResponseWriter: out, server: s, line: line, keep: -1}
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

// wait waits for the latency to pass. It returns false when the client has
// closed the connection.
func (s *Server) wait(ctx context.Context) bool {
	if s.options.Latency <= 0 {
		return true
	}
	timer := time.NewTimer(s.options.Latency)
	defer timer.Stop()
	select {
	case <-timer.C:
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

// response counts the bytes that it passes on, and stops after keep bytes of
// the body. A negative keep is no limit.
type response struct {
	http.ResponseWriter
	server *Server
	line   *Request
	keep   int64
	cut    bool
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
	r.server.mutex.Unlock()
	n, err := r.ResponseWriter.Write(body)
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

// pacedListener limits the bandwidth of each of its connections.
type pacedListener struct {
	net.Listener
	bytesPerSecond int64
}

func (l pacedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &pacedConn{Conn: conn, bytesPerSecond: l.bytesPerSecond}, nil
}

// pacedConn writes no faster than bytesPerSecond, on average since the last
// pause. It hides the connection's ReadFrom, through which the HTTP server
// would pass whole files to the kernel.
type pacedConn struct {
	net.Conn
	bytesPerSecond int64
	free           time.Time // when the line has sent all bytes
}

// Write is called by one goroutine at a time, as the HTTP server does.
func (c *pacedConn) Write(data []byte) (int, error) {
	// Write in steps of a tenth of a second, so that the rate is steady and a
	// closed connection is noticed.
	chunk := int(max(c.bytesPerSecond/10, 1))
	written := 0
	for written < len(data) {
		time.Sleep(time.Until(c.free))
		n, err := c.Conn.Write(data[written:min(written+chunk, len(data))])
		written += n
		if err != nil {
			return written, err
		}
		if now := time.Now(); c.free.Before(now) {
			c.free = now
		}
		c.free = c.free.Add(time.Duration(float64(n) / float64(c.bytesPerSecond) * float64(time.Second)))
	}
	return written, nil
}
