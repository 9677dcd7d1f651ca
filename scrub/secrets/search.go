// Package secrets searches the files of a machine for secrets, and for what belongs
// to one machine or cluster: in archives, in compressed and encoded contents, and
// in databases. The patterns of each kind are in patterns.yaml. A finding names the
// file, the kind and the line, never the secret.
package secrets

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// notSearched are paths that other rules cover, that no image has, or that
// contain public data which looks like secrets, such as images of containers.
var notSearched = []string{
	"/proc", "/sys", "/dev", "/run", "/snap", "/var/lib/snapd",
	"/etc/ssh/ssh_host_*", "/var/lib/kubelet/pki", "/var/lib/kubelet/pods", "/etc/kubernetes/pki",
	"/var/lib/containerd", "/var/lib/docker", "/var/lib/containers", "/etc/eks/pause.tar",
	"/var/lib/dpkg", "/var/lib/apt/lists", "/var/lib/rpm", "/usr/lib/sysimage/rpm", "/usr/share/rpm", "/var/lib/dnf",
	"/var/lib/pacman",
	"/var/lib/flatpak", "/var/lib/swcatalog", "/var/lib/mlocate", "/var/lib/plocate", "/usr/local/go",
}

// elsewhere are folders with mounts that an image of the machine's disk does not
// have.
var elsewhere = []string{"/mnt", "/media", "/snap", "/var/lib/snapd", "/run"}

// libraries are folders of libraries and documentation of programs, by the end
// of their paths. They are public and contain many test keys and examples.
var libraries = []string{
	"site-packages", "dist-packages", "lib/python[23].*", "lib64/python[23].*", "node_modules", "awscli",
	"google-cloud-sdk",
	"gems", "lib/ruby", "perl5", "share/perl", "go/pkg/mod", ".cargo/registry", "share/doc", "share/man", "share/info",
}

func isLibrary(folder string) bool {
	return slices.ContainsFunc(libraries, func(end string) bool {
		at := len(folder)
		for range strings.Count(end, "/") + 1 {
			at = max(strings.LastIndexByte(folder[:at], '/'), 0)
		}
		return rule.Kept([]string{end}, strings.TrimPrefix(folder[at:], "/"))
	})
}

// Search is a search for patterns in every file below some places that no other
// rule removes.
type Search struct {
	Taken rule.Taken
	Words *Index
	// Keys says that files of keys are findings.
	Keys bool
	// Known are the files of packages. What a package owns and has not changed is
	// not searched. nil searches all.
	Known *rule.Originals
}

// opened is a file on its way to a worker.
type opened struct {
	entry host.Entry
	in    *os.File
}

// In searches below the folders. A finding names the file, the kind and the
// line, never the secret.
func (s Search) In(ctx context.Context, h *host.Host, tops ...string) ([]plan.Finding, error) {
	var findings []plan.Finding
	var errs []error
	var lock sync.Mutex
	files := make(chan opened, 32) // the walk goes on while all workers read long files
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 4) {
		workers.Go(func() {
			for o := range files {
				found, err := s.file(ctx, o)
				lock.Lock()
				findings = append(findings, found...)
				if err != nil {
					errs = append(errs, fmt.Errorf("searching %s: %w", o.entry.Path, err))
				}
				lock.Unlock()
			}
		})
	}
	foreign, err := s.walk(ctx, h, tops, files)
	close(files)
	workers.Wait()
	slices.SortStableFunc(findings, func(a, b plan.Finding) int { return cmp.Compare(a.Target, b.Target) })
	return append(findings, rule.ForeignFindings(h, foreign)...), errors.Join(append(errs, err)...)
}

// walk sends the files below the folders to the workers.
func (s Search) walk(
	ctx context.Context, h *host.Host, tops []string, files chan<- opened,
) (foreign []*host.ForeignMount, _ error) {
	var errs []error
	for _, top := range tops {
		mounts, err := h.Files.Walk(ctx, top, path.Dir(top), func(e host.Entry, err error) error {
			name := e.Path
			switch {
			case err != nil:
				errs = append(errs, err)
				return nil
			case e.IsDir() && (rule.Kept(notSearched, name) || s.library(name) || s.Taken.InWalk(top, name)):
				return fs.SkipDir
			case rule.Kept(notSearched, name), s.Taken.InWalk(top, name), !e.Mode().IsRegular(), e.Size() == 0:
				return nil
			}
			in, err := e.Open()
			if err != nil {
				if !rule.IsMissing(err) {
					errs = append(errs, fmt.Errorf("searching %s: %w", name, err))
				}
				return nil
			}
			files <- opened{e, in}
			return nil
		})
		foreign, errs = append(foreign, mounts...), append(errs, err)
	}
	foreign = slices.DeleteFunc(foreign, func(m *host.ForeignMount) bool {
		return rule.Kept(notSearched, m.Path) || s.Taken.Has(m.Path) ||
			slices.ContainsFunc(elsewhere, func(folder string) bool { return rule.Within(folder, m.Path) })
	})
	return foreign, errors.Join(errs...)
}

// library reports whether a folder has public files. Where checksums of packages
// show which files are public, the others are searched. The folders of compiled
// Python modules have what follows from the modules.
func (s Search) library(folder string) bool {
	if system(folder) && path.Base(folder) == "__pycache__" {
		return true
	}
	return isLibrary(folder) && !(system(folder) && s.Known.Covers(folder))
}

// system reports whether a file is one of the distribution. Without a database
// of packages, /usr is an image of its own, as on Flatcar.
func system(name string) bool { return rule.Within("/usr", name) && !rule.Within("/usr/local", name) }

// file searches a file, unless it is a package's own.
func (s Search) file(ctx context.Context, o opened) ([]plan.Finding, error) {
	defer o.in.Close()
	name := o.entry.Path
	unchanged, err := s.Known.Unchanged(ctx, name, o.in)
	if err != nil || unchanged {
		return nil, err
	}
	var findings []plan.Finding
	found := func(text string) {
		if f := (plan.Finding{Target: name, Reason: text}); !slices.Contains(findings, f) {
			findings = append(findings, f)
		}
	}
	for _, p := range s.Words.patterns {
		if p.Re == nil && p.in(name) {
			found("the file is " + p.Kind)
		}
	}
	// Programs of the distribution contain keys for tests.
	if system(name) && len(s.Known.Of(name)) == 0 && isProgram(o.in) {
		return nil, nil
	}
	c := content{ctx: ctx, words: s.Words, most: searchMost, left: expandMost, keys: s.Keys,
		special: !s.Known.Any() && system(name), found: found}
	return findings, c.file(name, o.in, o.entry.Size())
}

// The search reads blocks, so that its memory does not grow with a file. A
// pattern sees the part of a line around its hint: that much before and after.
const (
	blockSize  = 1 << 20
	lineBefore = 512
	lineAfter  = 1024
	// ahead is what stays unread in a block for matches that begin in it.
	ahead = lineAfter + thenFar
)

// blocks are buffers that searches share, because an audit reads many files.
var blocks = sync.Pool{New: func() any { return new([blockSize]byte) }}

// scan searches one content for the patterns of an index.
type scan struct {
	ctx   context.Context
	words *Index
	// name is the file's name for patterns that need one.
	name string
	// binary says that lines end at control characters; text, that patterns of
	// texts apply; database, that values stand side by side.
	binary, text, database bool
	// special leaves the patterns out that go by a name alone.
	special bool
	// found is called once for each pattern, with a line, or with an offset in a
	// binary content.
	found func(p *Pattern, at int64)
	// runs is called for each block of a text, with the part that was not
	// searched before and the lines before the block. nil for none.
	runs func(block []byte, from, limit int, lines int64)

	states []state
	lines  int64 // before the block
	base   int64 // the block's offset
}

// state is a pattern in a scan.
type state struct {
	left  bool // out of the search: found, or not for this file
	asked bool
	until int // where the pattern was tried, in the block
	tries int
}

// read searches everything. An error is that of in, or of the context.
func (s *scan) read(in io.Reader) error {
	s.states = make([]state, len(s.words.patterns))
	buffer := blocks.Get().(*[blockSize]byte)
	defer blocks.Put(buffer)
	for n, from := 0, 0; ; {
		if err := context.Cause(s.ctx); err != nil {
			return err
		}
		more, err := io.ReadFull(in, buffer[n:])
		n += more
		end := err != nil
		limit := n
		if !end {
			limit = n - ahead
		}
		s.block(buffer[:n], from, limit)
		if s.runs != nil {
			s.runs(buffer[:n], from, limit, s.lines)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if end {
			return err
		}
		dropped := max(limit-lineBefore-1, 0)
		s.lines += int64(bytes.Count(buffer[:dropped], []byte("\n")))
		s.base += int64(dropped)
		for i := range s.states {
			s.states[i].until -= dropped
		}
		copy(buffer[:], buffer[dropped:n])
		n, from = n-dropped, limit-dropped
	}
}

// block searches for hints that begin between from and limit.
func (s *scan) block(text []byte, from, limit int) {
	x := s.words
	start, whole := uint32(0), min(limit, len(text)-2)
	for _, b := range text[from:min(from+2, len(text))] {
		start = x.next(start, b)
	}
	for i := from; i < whole; i++ {
		start = (start<<6 | uint32(x.classes[text[i+2]])) & (starts - 1)
		if x.bits[start/64]>>(start%64)&1 != 0 {
			s.hit(text, i, x.starts[start])
		}
	}
	for i := max(from, whole); i < limit; i++ { // the end of the content
		start = x.next(start, 0)
		s.hit(text, i, x.starts[start])
	}
	s.everyLine(text, from, limit)
}

// hit runs the patterns of the hints that begin at a position.
func (s *scan) hit(text []byte, at int, number uint16) {
	for _, h := range s.words.hints[number] {
		if begins(text[at:], h.word) {
			for _, p := range h.patterns {
				s.try(text, at, at+len(h.word), p)
			}
		}
	}
}

// everyLine runs the patterns without hints on the lines that begin in a part
// of a block.
func (s *scan) everyLine(text []byte, from, limit int) {
	for _, number := range s.words.every {
		if !s.words.patterns[number].in(s.name) {
			continue
		}
		for i := from; i < limit; i++ {
			if i == 0 && s.base == 0 || i > 0 && s.ends(text[i-1]) {
				s.try(text, i, i, number)
			}
		}
	}
}

// try runs a pattern on the line around a hint, once for each part of a line.
func (s *scan) try(text []byte, at, after, number int) {
	st, p := &s.states[number], &s.words.patterns[number]
	if !st.asked {
		st.asked, st.tries = true, thenMost
		st.left = p.in != nil && !p.in(s.name) || p.Text && !s.text || p.General && s.special
	}
	if st.left || at < st.until || p.Run > 0 && !runs(text[after:], p.Run) {
		return
	}
	begin, whole := s.begin(text, at)
	end := s.end(text, after)
	re := p.Re
	if s.database && !p.Text {
		re = p.loose
	}
	if (p.Signs == "" || bytes.ContainsAny(text[after:end], p.Signs)) &&
		p.matches(re(), text, begin, end, whole, &st.tries) {
		st.left = true
		if s.binary {
			s.found(p, s.base+int64(at))
		} else {
			s.found(p, s.lines+int64(bytes.Count(text[:begin], []byte("\n")))+1)
		}
		return
	}
	if st.until = end; end == after+lineAfter { // the line goes on
		st.until = end - lineBefore
	}
}

// begin is where the line of a position begins, and whether that is the line's
// own begin.
func (s *scan) begin(text []byte, at int) (begin int, whole bool) {
	least := max(at-lineBefore, 0)
	for i := at; i > least; i-- {
		if s.ends(text[i-1]) {
			return i, true
		}
	}
	return least, least == 0 && s.base == 0
}

func (s *scan) end(text []byte, at int) int {
	most := min(at+lineAfter, len(text))
	for i := at; i < most; i++ {
		if s.ends(text[i]) {
			return i
		}
	}
	return most
}

func (s *scan) ends(b byte) bool {
	return b == '\n' || s.binary && (b < ' ' && b != '\t' && b != '\r' || b == 0x7f)
}
