package scrub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/packages"
)

// owners reads the databases of packages once in a run.
type owners struct {
	once sync.Once
	have *packages.Owners
	err  error
}

func (o *owners) read(ctx context.Context, h *host.Host) (*packages.Owners, error) {
	o.once.Do(func() { o.have, o.err = packages.ReadOwners(ctx, h) })
	return o.have, o.err
}

// judge refuses actions of an operator's rule on files that this machine needs.
// The check needs the machine, because links lead to other places than the rule
// names, and only the machine knows which files packages own.
func (i item) judge(ctx context.Context, h *host.Host, actions []plan.Action) error {
	if len(actions) == 0 {
		return nil
	}
	needed, err := neededHere(h)
	if err != nil {
		return fmt.Errorf("listing the files that this machine needs: %w", err)
	}
	var errs []error
	for _, a := range actions {
		_, place, err := h.Trail(a.Target, a.Verb == plan.Empty)
		if err == nil {
			err = needed.check(a.Target, place)
		}
		if err == nil && !i.Owned {
			err = i.checkOwners(ctx, h, place, a.Verb)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// spareOwned leaves out the actions on files that a package owns.
func (i item) spareOwned(ctx context.Context, h *host.Host, actions []plan.Action) ([]plan.Action, error) {
	var left []plan.Action
	for _, a := range actions {
		if !kept(i.neverOwned, a.Target) {
			have, err := i.owners.read(ctx, h)
			if err != nil {
				return nil, fmt.Errorf("checking whether a package owns %s: %w", a.Target, err)
			}
			_, place, err := h.Trail(a.Target, false)
			if err != nil {
				return nil, err
			}
			if _, owner, err := have.Below(h, place, true); err != nil {
				return nil, err
			} else if owner != "" {
				continue
			}
		}
		left = append(left, a)
	}
	return left, nil
}

// checkOwners refuses to remove a file that a package owns.
func (i item) checkOwners(ctx context.Context, h *host.Host, place string, verb plan.Verb) error {
	have, err := i.owners.read(ctx, h)
	if err != nil {
		return fmt.Errorf("checking whether a package owns %s: %w; to skip the check, set \"owned: true\" in the rule", place, err)
	}
	st, err := h.Files.Lstat(place)
	if err != nil {
		return ignoreMissing(err)
	}
	file, owner, err := have.Below(h, place, verb == plan.Remove || !st.IsDir())
	if err != nil || file == "" {
		return err
	}
	return fmt.Errorf("%s belongs to the package %s: list the file under keep, remove the package, or set \"owned: true\" to let the rule remove files of packages", file, owner)
}

// neededPlaces maps places that must stay on this machine to the reason.
type neededPlaces map[string]string

// neededHere returns the homes of people and the files that the manifest
// records.
func neededHere(h *host.Host) (neededPlaces, error) {
	needed := neededPlaces{}
	add := func(name, why string, follow bool) error {
		_, place, err := h.Trail(name, follow)
		if err == nil && place != "/" {
			needed[place] = why
		}
		return err
	}
	accounts, err := h.Content("/etc/passwd")
	if err != nil {
		return nil, err
	}
	for _, a := range parseAccounts(string(accounts)) {
		if !isPerson(a.uid) {
			continue
		}
		if err := add(a.home, fmt.Sprintf("home of %.80q", a.name), true); err != nil {
			return nil, err
		}
	}
	m, err := manifest.Load(h)
	if err != nil || m == nil {
		return needed, err
	}
	for _, name := range recordedPaths(m) {
		if err := add(name, "the image's manifest records it", false); err != nil {
			return nil, err
		}
	}
	return needed, nil
}

// isPerson reports whether a user ID belongs to root or to a person; daemons
// keep state in their homes.
func isPerson(uid string) bool {
	n, err := strconv.ParseUint(uid, 10, 32)
	return err == nil && (n == 0 || n >= 1000 && n < 60000)
}

// recordedPaths returns the files that provisioning installed.
func recordedPaths(m *manifest.Manifest) []string {
	names := show.Each(m.Files, func(f manifest.File) string { return f.Path })
	for _, a := range m.Assets {
		for _, f := range a.Files {
			names = append(names, f.Path)
		}
	}
	for _, t := range m.Templates {
		names = append(names, t.Path)
	}
	return names
}

// check refuses a needed place and every folder above one.
func (n neededPlaces) check(target, place string) error {
	parts := split(place)
	if len(parts) == 0 {
		return fmt.Errorf("%s is %s on this machine and %w", target, place, errTooHigh)
	}
	if err := checkNeeded(parts, func(part, name string) bool { return part == name }); err != nil {
		return fmt.Errorf("%s is %s on this machine and %w", target, place, err)
	}
	for name, why := range n {
		if within(place, name) {
			return fmt.Errorf("removing %s would remove %s, which must stay: %s; list other files instead", target, name, why)
		}
	}
	return nil
}

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

// originRules has the rule for paths of the Packer host.
func originRules() []Rule {
	return []Rule{
		{
			ID: "build-paths", Phase: Inspect, Groups: []string{"assets", "identity"}, Verb: Report,
			Paths: []string{manifest.Path, manifest.SBOMPath}, Owner: "eksnode",
			Why:         "paths of the Packer host in the manifest or the bill of materials show who built the image and where, and exist on no node",
			Regenerated: "provisioning the image again", Source: "the image's own manifest",
			look: buildPaths,
		},
	}
}

// localPlace matches an address or a path of a file on one computer: file://,
// /, ~/ or a Windows drive.
var localPlace = expression(`(?i)^(file:|/|~|[a-z]:[\\/])`)

// localAddress matches file:// anywhere in a text, also with percent encoding.
var localAddress = expression(`(?i)file(:|%3a)(/|%2f){2}`)

// buildPaths reports where the manifest or the bill of materials names a folder
// of the computer that built the image.
func buildPaths(d *draft) {
	found := func(file, what string) {
		d.find(file, what+" names a file of the computer that built the image: provision again")
	}
	if m := d.manifest(); m != nil {
		for _, a := range m.Assets {
			if localPlace().MatchString(a.URL) {
				found(manifest.Path, fmt.Sprintf("the address of %s", a.ID))
			}
		}
		for _, i := range m.Images {
			if localPlace().MatchString(i.Source) {
				found(manifest.Path, fmt.Sprintf("the source of the image %s", i.Name))
			}
		}
	}
	if addresses := linesWith(localAddress(), d.content(manifest.SBOMPath)); addresses > 0 {
		found(manifest.SBOMPath, fmt.Sprintf("the bill of materials in %d lines", addresses))
	}
}

func linesWith(e *regexp.Regexp, text []byte) int {
	n := 0
	for line := range bytes.Lines(text) {
		if e.Match(line) {
			n++
		}
	}
	return n
}
