package scrub

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"github.com/eksnode/packer-plugin-eksnode/internal/expand"
)

// Limits of a search in one file: how many bytes of the file are read, how many
// bytes its compressed and encoded parts may expand to, and how deep they may
// be nested.
const (
	searchMost = 1 << 30
	expandMost = 256 << 20
	deepest    = 5
)

// zipMost bounds zip archives inside other files, in bytes: a zip archive can
// only be read from its end.
const zipMost = 32 << 20

// headSize is how much of a content is in memory to find its form.
const headSize = 64 << 10

// decodedName is the name of content without a name. It selects the patterns of
// environments: a person who encodes a text has a reason.
const decodedName = "/decoded.env"

// content searches one file in all its forms: as it is, expanded, and decoded.
type content struct {
	ctx   context.Context
	words *index
	// keys says that files of keys are findings.
	keys bool
	// special leaves the patterns out that go by a name alone.
	special bool
	// left is how many more bytes may be expanded.
	left int64
	// found is called with the place in the file and what is there.
	found func(text string)
	// failed is the first error of the file itself. Errors of a damaged archive
	// are none: what it has before the damage was searched.
	failed error
}

// part is the file, or a part of it.
type part struct {
	name string
	// where names the part in findings; empty for the file itself.
	where string
	in    io.Reader
	// whole is the part as a file; nil for a stream.
	whole io.ReaderAt
	size  int64
	depth int
	// program says that the part is an executable file.
	program bool
}

// Read implements io.Reader for expanded content.
type expanding struct {
	in io.Reader
	c  *content
}

var errExpanded = fmt.Errorf("only the first %d MiB of the expanded content were searched", expandMost>>20)

func (e expanding) Read(p []byte) (int, error) {
	if e.c.left <= 0 {
		return 0, errExpanded
	}
	n, err := e.in.Read(p[:min(int64(len(p)), e.c.left)])
	e.c.left -= int64(n)
	return n, err
}

// fileReader remembers the error of the file itself.
type fileReader struct {
	in io.Reader
	c  *content
}

func (f fileReader) Read(p []byte) (int, error) {
	n, err := f.in.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && f.c.failed == nil {
		f.c.failed = err
	}
	return n, err
}

// file searches a file.
func (c *content) file(name string, in *os.File, size int64) error {
	c.left = expandMost
	whole := io.NewSectionReader(in, 0, size)
	err := c.search(part{name: name, in: io.LimitReader(fileReader{dense(in, size), c}, searchMost), whole: whole, size: size})
	switch {
	case c.failed != nil:
		return c.failed
	case context.Cause(c.ctx) != nil:
		return context.Cause(c.ctx)
	case errors.Is(err, errExpanded) || c.left <= 0:
		c.found(errExpanded.Error() + ": check the rest of the file")
	}
	return nil
}

// search searches a part in the form that its head shows. An error is for the
// part above: the rest of the part could not be read.
func (c *content) search(p part) error {
	if err := context.Cause(c.ctx); err != nil {
		return err
	}
	buffer := make([]byte, min(headSize, max(p.size, 512)))
	if p.whole == nil {
		buffer = make([]byte, headSize)
	}
	n, err := io.ReadFull(p.in, buffer)
	head := buffer[:n]
	if err == nil {
		p.in = io.MultiReader(bytes.NewReader(head), p.in)
	} else if p.in = bytes.NewReader(head); !errors.Is(err, io.ErrUnexpectedEOF) {
		return ignoreEnd(err)
	}
	if c.keys {
		if kind := keyForm(p.name, head); kind != "" {
			c.found(p.where + "the file is " + kind)
		}
	}
	if p.depth < deepest {
		switch {
		case expand.Is(head):
			return c.expand(p, head)
		case bytes.HasPrefix(head, []byte("PK\x03\x04")):
			return c.zip(p)
		case len(head) > 262 && string(head[257:262]) == "ustar":
			return c.tar(p)
		}
	}
	if text := wideText(head, p.in); text != nil {
		return c.scan(p, text, false, true)
	}
	start := head[:min(len(head), 8<<10)]
	binary := bytes.IndexByte(start, 0) >= 0
	p.program = isProgram(head)
	return c.scan(p, p.in, binary, !binary || bytes.HasPrefix(head, []byte("SQLite format 3\x00")))
}

func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// scan searches a content without further form.
func (c *content) scan(p part, in io.Reader, binary, text bool) error {
	unit := "line"
	if binary {
		unit = "byte"
	}
	s := scan{ctx: c.ctx, words: c.words, name: p.name, binary: binary, text: text, special: c.special}
	matched, ours := map[int64][]*pattern{}, false
	s.found = func(found *pattern, at int64) {
		ours = ours || p.program && found.kind == eksnodeItself
		if found.kind != eksnodeItself {
			matched[at] = append(matched[at], found)
		}
	}
	if text && !binary && p.depth < deepest {
		encoded := &base64Runs{c: c, part: p}
		s.runs = encoded.block
	}
	err := s.read(in)
	if ours {
		return err
	}
	for _, at := range slices.Sorted(maps.Keys(matched)) {
		for i, m := range matched[at] {
			special := slices.ContainsFunc(matched[at], func(other *pattern) bool { return !other.general })
			if !m.general || !special && i == 0 {
				c.found(fmt.Sprintf("%s%s %d contains %s", p.where, unit, at, m.kind))
			}
		}
	}
	return err
}

// isProgram reports whether a content is a program or library: ELF, Mach-O or
// PE.
func isProgram(head []byte) bool {
	return slices.ContainsFunc([]string{"\x7fELF", "\xcf\xfa\xed\xfe", "MZ"}, func(magic string) bool { return bytes.HasPrefix(head, []byte(magic)) })
}

// expand searches a compressed content.
func (c *content) expand(p part, head []byte) error {
	in, err := expand.Open(head, p.in)
	if err != nil {
		return c.scan(p, p.in, true, false)
	}
	defer in.Close()
	name := p.name
	for _, end := range []string{".gz", ".xz", ".zst", ".bz2", ".tgz"} {
		if base, ok := cutEnd(name, end); ok {
			name = base
			break
		}
	}
	return c.inside(part{name: name, where: p.where + "in the expanded content, ", in: expanding{in, c}, depth: p.depth + 1})
}

func cutEnd(name, end string) (string, bool) {
	if len(name) > len(end) && name[len(name)-len(end):] == end {
		return name[:len(name)-len(end)], true
	}
	return name, false
}

// inside searches a part of a container. Damage of the container ends the
// search of the part alone.
func (c *content) inside(p part) error {
	err := c.search(p)
	if c.failed != nil || errors.Is(err, errExpanded) || context.Cause(c.ctx) != nil {
		return err
	}
	return nil
}

// tar searches the regular files of a tar archive.
func (c *content) tar(p part) error {
	in := p.in
	if p.depth == 0 {
		in = expanding{in, c} // sparse files in an archive are longer than the archive
	}
	archive := tar.NewReader(in)
	for {
		header, err := archive.Next()
		if err != nil {
			return c.damaged(err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := c.inside(p.member(header.Name, expanding{archive, c})); err != nil {
			return err
		}
	}
}

// damaged is the error of an archive for the part above.
func (c *content) damaged(err error) error {
	if c.failed != nil || errors.Is(err, errExpanded) {
		return err
	}
	return nil
}

func (p part) member(name string, in io.Reader) part {
	return part{name: path.Join("/", name), where: fmt.Sprintf("%sin %.120q of the archive, ", p.where, name), in: in, depth: p.depth + 1}
}

// zip searches the files of a zip archive.
func (c *content) zip(p part) error {
	if p.whole == nil {
		text, err := io.ReadAll(io.LimitReader(p.in, zipMost+1))
		if err != nil || len(text) > zipMost {
			return err
		}
		p.whole, p.size = bytes.NewReader(text), int64(len(text))
	}
	archive, err := zip.NewReader(p.whole, p.size)
	if err != nil {
		return c.damaged(err)
	}
	for _, f := range archive.File {
		if !f.Mode().IsRegular() {
			continue
		}
		in, err := f.Open()
		if err != nil {
			continue // a compression that is not supported, or damage
		}
		err = c.inside(p.member(f.Name, expanding{in, c}))
		_ = in.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// wideText decodes UTF-16, or returns nil for another content. A text without a
// byte order mark has a zero in almost every second byte.
func wideText(head []byte, in io.Reader) io.Reader {
	little := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) {
		return transform.NewReader(in, little.NewDecoder())
	}
	start, zeros := head[:min(len(head), 1024)], [2]int{}
	for i, b := range start {
		if b == 0 {
			zeros[i%2]++
		}
	}
	half := len(start) / 2
	switch {
	case half < 8:
		return nil
	case zeros[1]*10 > half*8 && zeros[0]*10 < half:
		return transform.NewReader(in, unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM).NewDecoder())
	case zeros[0]*10 > half*8 && zeros[1]*10 < half:
		return transform.NewReader(in, unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM).NewDecoder())
	}
	return nil
}
