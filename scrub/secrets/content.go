package secrets

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"debug/elf"
	"debug/pe"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/expand"
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
	words *Index
	// keys says that files of keys are findings.
	keys bool
	// special leaves the patterns out that go by a name alone.
	special bool
	// most is how many bytes of the file are searched, and left how many more
	// bytes may be expanded.
	most, left int64
	// found is called with the place in the file and what is there.
	found func(text string)
	// failed is the first error of the file itself.
	failed error
}

type part struct {
	name string
	// where names the part in findings; empty for the file itself.
	where string
	in    io.Reader
	// whole is the part as a file; nil for a stream.
	whole io.ReaderAt
	size  int64
	depth int
	// skipped is how many zeros in front of the part are left out.
	skipped int64
	// plain says that the part is searched as it is, also if it is a container.
	plain bool
}

// errDamaged is a container that is damaged, or a content that only begins like
// one. Its parts before the damage were searched.
var errDamaged = errors.New("the container is damaged")

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

func (c *content) file(name string, in *os.File, size int64) error {
	whole := part{name: name, whole: io.NewSectionReader(in, 0, size), size: size}
	err := c.pass(whole, in)
	if whole.plain = errors.Is(err, errDamaged); whole.plain {
		err = c.pass(whole, in)
	}
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

// pass searches a file from its beginning.
func (c *content) pass(p part, in *os.File) error {
	if _, c.failed = in.Seek(0, io.SeekStart); c.failed != nil {
		return c.failed
	}
	data := fileReader{dense(in, p.size), c}
	limited := &io.LimitedReader{R: data, N: c.most}
	p.in = limited
	err := c.search(p)
	if limited.N == 0 {
		if n, _ := io.ReadFull(data, make([]byte, 1)); n > 0 { // c.failed has the error
			c.found(fmt.Sprintf("only the first %d MiB of the file were searched: check the rest of the file",
				c.most>>20))
		}
	}
	return err
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
	for err == nil && len(bytes.Trim(buffer, "\x00")) == 0 {
		p.skipped += int64(n)
		n, err = io.ReadFull(p.in, buffer)
	}
	head, rest := buffer[:n], p.in
	switch p.in = io.MultiReader(bytes.NewReader(head), p.in); {
	case errors.Is(err, io.EOF):
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		p.in = bytes.NewReader(head)
	case err != nil:
		return err
	}
	if c.keys {
		if kind := keyForm(p.name, head); kind != "" {
			c.found(p.where + "the file is " + kind)
		}
	}
	if search := c.container(head); search != nil && !p.plain && p.depth < deepest {
		if err := search(p, head); p.whole != nil || !errors.Is(err, errDamaged) {
			return err
		}
		p.in = io.MultiReader(bytes.NewReader(head), rest)
	} else if search != nil && !p.plain {
		c.found(fmt.Sprintf("%sthe content is packed more than %d times and was not searched: unpack and check it",
			p.where, deepest))
	}
	if text := wideText(head, p.in); text != nil {
		return c.scan(p, text, scan{text: true})
	}
	binary, database := bytes.IndexByte(head, 0) >= 0, bytes.HasPrefix(head, []byte("SQLite format 3\x00"))
	return c.scan(p, p.in, scan{binary: binary, database: database, text: !binary || database || isText(head)})
}

// container returns the search of the content in a container with this head; nil
// for other contents.
func (c *content) container(head []byte) func(p part, head []byte) error {
	switch {
	case expand.Is(head):
		return c.expand
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return c.zip
	case len(head) > 262 && string(head[257:262]) == "ustar":
		return c.tar
	}
	return nil
}

// isText reports whether a content with zeros is a text: in a copy of
// /proc/PID/environ they end the lines, and a log that was truncated below its
// writer begins with them. One byte in twenty may be no text, such as one of
// Latin-1.
func isText(head []byte) bool {
	all, others := 0, 0
	for len(head) > 0 {
		r, size := utf8.DecodeRune(head)
		if head = head[size:]; r == 0 {
			continue
		}
		all++
		if r == utf8.RuneError && size == 1 || r < ' ' && !strings.ContainsRune("\a\b\t\n\v\f\r\x1b", r) || r == 0x7f {
			others++
		}
	}
	return all > 0 && others*20 <= all
}

// scan searches a content without further form.
func (c *content) scan(p part, in io.Reader, s scan) error {
	unit := "line"
	if s.binary {
		unit = "byte"
	}
	s.ctx, s.words, s.name, s.special = c.ctx, c.words, p.name, c.special
	matched := map[int64][]*Pattern{}
	s.found = func(found *Pattern, at int64) {
		if s.binary {
			at += p.skipped
		}
		matched[at] = append(matched[at], found)
	}
	if s.text && !s.database && p.depth < deepest {
		encoded := &base64Runs{c: c, part: p}
		s.runs = encoded.block
	}
	err := s.read(in)
	for _, at := range slices.Sorted(maps.Keys(matched)) {
		for i, m := range matched[at] {
			special := slices.ContainsFunc(matched[at], func(other *Pattern) bool { return !other.General })
			if !m.General || !special && i == 0 {
				c.found(fmt.Sprintf("%s%s %d contains %s", p.where, unit, at, m.Kind))
			}
		}
	}
	return err
}

// isProgram reports whether a file has the form of a program or library for
// Linux or UEFI. The first bytes alone could hide any text.
func isProgram(in io.ReaderAt) bool {
	if e, err := elf.NewFile(in); err == nil {
		return e.Type != elf.ET_CORE
	}
	_, err := pe.NewFile(in)
	return err == nil
}

func (c *content) expand(p part, head []byte) error {
	in, err := expand.Open(head, p.in)
	if err != nil {
		return c.damaged(p, err)
	}
	defer in.Close()
	name := p.name
	for _, end := range []string{".gz", ".xz", ".zst", ".bz2", ".tgz"} {
		if base, ok := strings.CutSuffix(name, end); ok {
			name = base
			break
		}
	}
	return c.damaged(p, c.search(p.inner(name, "in the expanded content, ", expanding{in, c})))
}

// inside searches a part of a container. Damage of the container ends the
// search of the part alone.
func (c *content) inside(p part) error {
	if err := c.damaged(p, c.search(p)); !errors.Is(err, errDamaged) {
		return err
	}
	return nil
}

func (c *content) tar(p part, _ []byte) error {
	in := p.in
	if p.depth == 0 {
		in = expanding{in, c} // sparse files in an archive are longer than the archive
	}
	archive := tar.NewReader(in)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return c.inside(p.inner(p.name, "after the end of the archive, ", in))
		}
		if err != nil {
			return c.damaged(p, err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := c.inside(p.member(header.Name, expanding{archive, c})); err != nil {
			return err
		}
	}
}

// damaged is the error of reading a container: errDamaged unless something else
// ends the search.
func (c *content) damaged(p part, err error) error {
	switch {
	case err == nil || c.failed != nil || errors.Is(err, errExpanded) || context.Cause(c.ctx) != nil:
		return err
	case expand.TooLarge(err):
		c.found(p.where + err.Error() + ", so the content was not searched: unpack and check it")
		return nil
	}
	return errDamaged
}

func (p part) member(name string, in io.Reader) part {
	return p.inner(path.Join("/", name), fmt.Sprintf("in %.120q of the archive, ", name), in)
}

// inner is a content in a part.
func (p part) inner(name, where string, in io.Reader) part {
	return part{name: name, where: p.where + where, in: in, depth: p.depth + 1}
}

// zip searches the files of a zip archive.
func (c *content) zip(p part, _ []byte) error {
	if p.whole == nil {
		text, err := io.ReadAll(io.LimitReader(p.in, zipMost+1))
		if err != nil {
			return err
		}
		if len(text) > zipMost {
			c.found(fmt.Sprintf("%sa zip archive is larger than %d MiB and was not searched: unpack and check it",
				p.where, zipMost>>20))
			return nil
		}
		p.whole, p.size = bytes.NewReader(text), int64(len(text))
	}
	archive, err := zip.NewReader(p.whole, p.size)
	if err != nil {
		return c.damaged(p, err)
	}
	for _, f := range archive.File {
		if !f.Mode().IsRegular() {
			continue
		}
		in, err := f.Open()
		if err != nil || f.Flags&1 != 0 { // another compression, damage, or encryption
			c.found(fmt.Sprintf("%s%.120q of the archive cannot be searched: unpack and check it", p.where, f.Name))
			continue
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
