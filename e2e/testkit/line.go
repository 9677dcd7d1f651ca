package testkit

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"sync"
)

// Said collects what a program writes, and can be read while the program still runs.
type Said struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

// Write implements io.Writer.
func (s *Said) Write(text []byte) (int, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.text.Write(text)
}

// String returns the output so far.
func (s *Said) String() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.text.String()
}

// Tunnel connects the caller of a proxy to an address until either ends. Back passes on what the
// address sends; nil passes on everything.
func Tunnel(w http.ResponseWriter, address string, back func(here io.Writer, there io.Reader)) {
	there, err := net.Dial("tcp", address)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer there.Close()
	here, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err) // the server is httptest's
	}
	defer here.Close()
	_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n") // the caller may have gone
	go func() {
		_, _ = io.Copy(there, buffered)
		_ = there.Close()
	}()
	if back == nil {
		_, _ = io.Copy(here, there)
		return
	}
	back(here, there)
}
