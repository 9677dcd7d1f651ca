package scrub

import (
	"context"
	"io"
	"os"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/scrub/packages"
)

// originals are the files of packages as they were installed. The rules of a run
// share what they learn about them.
type originals struct {
	once sync.Once
	have packages.Originals
	err  error

	lock sync.Mutex
	same map[string]bool
}

func (o *originals) read(ctx context.Context, h *host.Host) error {
	o.once.Do(func() {
		o.same = map[string]bool{}
		o.have, o.err = packages.ReadOriginals(ctx, h)
	})
	return o.err
}

// any reports whether the machine has packages with checksums.
func (o *originals) any() bool { return o != nil && len(o.have) > 0 }

// unchanged reports whether a file is one of a package, and has the content that
// the package installed. Afterwards in is at its begin.
func (o *originals) unchanged(ctx context.Context, place string, in *os.File) (bool, error) {
	if o == nil || len(o.have[place]) == 0 {
		return false, nil
	}
	o.lock.Lock()
	same, known := o.same[place]
	o.lock.Unlock()
	if known {
		return same, nil
	}
	same, err := packages.Same(o.have[place], stoppable{ctx, in})
	if err == nil {
		_, err = in.Seek(0, io.SeekStart)
	}
	if err != nil {
		return false, err
	}
	o.lock.Lock()
	defer o.lock.Unlock()
	o.same[place] = same
	return same, nil
}

// stoppable reads until the context ends.
type stoppable struct {
	ctx context.Context
	in  io.Reader
}

// Read implements io.Reader.
func (s stoppable) Read(p []byte) (int, error) {
	if err := context.Cause(s.ctx); err != nil {
		return 0, err
	}
	return s.in.Read(p)
}
