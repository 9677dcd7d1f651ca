package mirror

import "slices"

// Fault is one thing that goes wrong with one file of a served mirror.
type Fault struct {
	path    string
	times   int // requests it still hits; negative for all
	status  int
	content []byte
	replace bool
	cut     bool
	keep    int64
}

// Fail answers requests for path ("/HOST/PATH") with the HTTP status.
func Fail(path string, status int) Fault {
	return Fault{path: path, times: -1, status: status}
}

// Truncate breaks the connection after the first bytes of path's body; the
// header has promised all of it.
func Truncate(path string, bytes int64) Fault {
	return Fault{path: path, times: -1, cut: true, keep: bytes}
}

// Replace serves content at path, in place of the file or where there is none.
func Replace(path string, content []byte) Fault {
	return Fault{path: path, times: -1, content: slices.Clone(content), replace: true}
}

// First answers the same fault, limited to the next so many requests for its
// path.
func (f Fault) First(requests int) Fault {
	f.times = requests
	return f
}

// Inject makes the faults happen from the next request on. Of several on one
// path, the one injected first is used up first.
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

// fault answers, and counts, the fault that hits a request for path now.
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
