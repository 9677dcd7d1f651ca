package scrub

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/scrub/packages"
)

// originals are the files of packages as they were installed. The rules of a run
// share what they learn about them.
type originals struct {
	once   sync.Once
	have   packages.Originals
	places []string // of have, in order
	err    error

	lock sync.Mutex
	same map[string]bool
}

func (o *originals) read(ctx context.Context, h *host.Host) error {
	o.once.Do(func() {
		o.same = map[string]bool{}
		o.have, o.err = packages.ReadOriginals(ctx, h)
		o.places = o.have.Places()
	})
	return o.err
}

// any reports whether the machine has packages with checksums.
func (o *originals) any() bool { return o != nil && len(o.have) > 0 }

// of returns the originals of a file.
func (o *originals) of(place string) []packages.Original {
	if o == nil {
		return nil
	}
	return o.have[place]
}

// covers reports whether packages have files with checksums below a folder.
func (o *originals) covers(folder string) bool {
	if o == nil {
		return false
	}
	i, _ := slices.BinarySearch(o.places, folder+"/")
	return i < len(o.places) && strings.HasPrefix(o.places[i], folder+"/")
}

// unchanged reports whether a file is one of a package, and has the content that
// the package installed. Afterwards in is at its begin.
func (o *originals) unchanged(ctx context.Context, place string, in *os.File) (bool, error) {
	if len(o.of(place)) == 0 {
		return false, nil
	}
	if same, known := o.compared(place); known {
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

// compared returns the result of an earlier comparison.
func (o *originals) compared(place string) (same, known bool) {
	o.lock.Lock()
	defer o.lock.Unlock()
	same, known = o.same[place]
	return same, known
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

// WriteTo implements io.WriterTo. An audit reads many files: all share the buffers.
func (s stoppable) WriteTo(to io.Writer) (int64, error) {
	buffer := blocks.Get().(*[blockSize]byte)
	defer blocks.Put(buffer)
	return io.CopyBuffer(to, struct{ io.Reader }{s}, buffer[:128<<10])
}
