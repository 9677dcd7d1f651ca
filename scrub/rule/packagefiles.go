package rule

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/expand"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/packages"
)

// Owners reads the databases of packages once in a run.
type Owners struct {
	once sync.Once
	have *packages.Owners
	err  error
}

// Read reads the databases at its first call.
func (o *Owners) Read(ctx context.Context, h *host.Host) (*packages.Owners, error) {
	o.once.Do(func() { o.have, o.err = packages.ReadOwners(ctx, h) })
	return o.have, o.err
}

// Originals are the files of packages as they were installed. The rules of a run
// share what they learn about them.
type Originals struct {
	once   sync.Once
	Have   packages.Originals
	places []string // of have, in order
	err    error

	lock sync.Mutex
	same map[string]bool
}

// Read reads the checksums of packages at its first call.
func (o *Originals) Read(ctx context.Context, h *host.Host) error {
	o.once.Do(func() {
		o.same = map[string]bool{}
		o.Have, o.err = packages.ReadOriginals(ctx, h)
		o.places = o.Have.Places()
	})
	return o.err
}

// Any reports whether the machine has packages with checksums.
func (o *Originals) Any() bool { return o != nil && len(o.Have) > 0 }

// Of returns the originals of a file.
func (o *Originals) Of(place string) []packages.Original {
	if o == nil {
		return nil
	}
	return o.Have[place]
}

// Covers reports whether packages have files with checksums below a folder.
func (o *Originals) Covers(folder string) bool {
	if o == nil {
		return false
	}
	i, _ := slices.BinarySearch(o.places, folder+"/")
	return i < len(o.places) && strings.HasPrefix(o.places[i], folder+"/")
}

// Unchanged reports whether a file is one of a package, and has the content that
// the package installed. Afterwards in is at its begin.
func (o *Originals) Unchanged(ctx context.Context, place string, in *os.File) (bool, error) {
	if len(o.Of(place)) == 0 {
		return false, nil
	}
	if same, known := o.Compared(place); known {
		return same, nil
	}
	same, err := packages.Same(o.Have[place], expand.Until(ctx, in))
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

// Compared returns the result of an earlier comparison.
func (o *Originals) Compared(place string) (same, known bool) {
	o.lock.Lock()
	defer o.lock.Unlock()
	same, known = o.same[place]
	return same, known
}

// Taken has the actions that rules last planned for files and trees, by the
// rule's ID.
type Taken map[string]map[string]plan.Verb

// Note keeps what a rule plans, in place of what it planned before.
func (t Taken) Note(rule string, actions []plan.Action) {
	verbs := map[string]plan.Verb{}
	for _, a := range actions {
		verbs[a.Target] = a.Verb
	}
	if delete(t, rule); t != nil && len(verbs) > 0 {
		t[rule] = verbs
	}
}

// Has reports whether a file, or a folder above it, is removed.
func (t Taken) Has(name string) bool {
	for ; name != "/" && name != "."; name = path.Dir(name) {
		if t.By(name, plan.Remove, plan.Empty) {
			return true
		}
	}
	return false
}

// InWalk is has for an entry of a walk below top that enters no removed folder.
// So the folders between top and the entry need no look.
func (t Taken) InWalk(top, name string) bool {
	if name == top {
		return t.Has(name)
	}
	return t.By(name, plan.Remove, plan.Empty)
}

// By reports whether a rule does one of these actions to a path.
func (t Taken) By(name string, verbs ...plan.Verb) bool {
	for _, done := range t {
		if slices.Contains(verbs, done[name]) {
			return true
		}
	}
	return false
}

// HashFile hashes an open file, and closes it.
func HashFile(ctx context.Context, in *os.File, name string) (plan.FileHash, error) {
	defer in.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, expand.Until(ctx, in))
	return plan.FileHash{Path: name, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))}, err
}
