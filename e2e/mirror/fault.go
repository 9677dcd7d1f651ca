package mirror

import "slices"

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

// fault returns and counts the fault of the present request for path.
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
