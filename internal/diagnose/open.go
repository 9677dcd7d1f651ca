package diagnose

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	utf16 "golang.org/x/text/encoding/unicode"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

// File searches a file that a person named: a text, an archive, a compressed file
// or the files of a folder. After a read error it still searches the part before
// the error.
func (s *Search) File(name string) error {
	f, err := surface.Open(name)
	if err != nil {
		return fmt.Errorf("reading the log: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return fmt.Errorf("reading the log: %w", err)
	case st.IsDir():
		return s.folder(name)
	case st.Mode().IsRegular():
		return s.opened(source{name: name, named: true, file: name}, f)
	}
	return s.Input(name, f)
}

// Input searches a stream.
func (s *Search) Input(name string, in io.Reader) error {
	return s.read(source{name: name, in: in, named: true})
}

// Member searches a file of a folder. inner is its name inside the folder.
func (s *Search) Member(name, inner string, f *os.File) error {
	return s.opened(source{name: name, inner: inner}, f)
}

// opened searches a file.
func (s *Search) opened(from source, f *os.File) error {
	st, err := f.Stat()
	if err != nil {
		return fmt.Errorf("reading the log: %w", err)
	}
	from.in, from.whole = f, io.NewSectionReader(f, 0, st.Size())
	return s.read(from)
}

// folder searches the regular files of a folder. It follows no links.
func (s *Search) folder(name string) error {
	root, err := filepath.EvalSymlinks(name)
	if err != nil {
		return fmt.Errorf("reading the folder: %w", err)
	}
	before, errs := s.texts, []error(nil)
	walk := func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			errs = append(errs, fmt.Errorf("reading the folder %s: %w", name, err))
			return nil
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			errs = append(errs, fmt.Errorf("reading the log: %w", err))
			return nil
		}
		defer f.Close()
		errs = append(errs, s.opened(source{name: filepath.Join(name, path[len(root):]), file: path,
			inner: strings.TrimPrefix(path[len(root):], "/")}, f))
		return s.ctx.Err()
	}
	if err := filepath.WalkDir(root, walk); err != nil {
		return errors.Join(append(errs, err)...)
	}
	errs = append(errs, s.folderJournal(name))
	if s.texts == before {
		errs = append(errs, fmt.Errorf("the folder %s contains no readable log", name))
	}
	return errors.Join(errs...)
}

// source is a log, or a container of logs.
type source struct {
	name string
	in   io.Reader
	// whole is the input as a file, or nil for a stream.
	whole *io.SectionReader
	// named says that a person named the source itself and not its folder or
	// archive. A named source must be readable.
	named bool
	depth int
	// inner is the name inside the folder or archive, or empty.
	inner string
	// file is the path of the input, or empty for a stream.
	file string
}

// deepest is how many archives and compressed files may be nested.
const deepest = 4

// sniffed is how much of a text decides its kind, in bytes.
const sniffed = 4096

// read finds the kind of a source and searches it.
func (s *Search) read(from source) error {
	in := bufio.NewReaderSize(from.in, 64<<10)
	head, err := in.Peek(sniffed)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading %s: %w", from.name, err)
	}
	from.in = in
	for _, f := range forms() {
		if f.is(head) {
			if from.depth == deepest {
				return fmt.Errorf("reading %s: archives are nested more than %d deep", from.name, deepest)
			}
			from.depth++
			return f.read(s, from)
		}
	}
	if from.inner != "" && isState(from.inner) {
		again, err := s.stateIn(from, in)
		if err != nil {
			return err
		}
		in = bufio.NewReaderSize(again, 64<<10)
	}
	if from.inner != "" && isNotLog(from.inner, head) {
		if len(head) > 0 {
			s.passed = append(s.passed, show.Line(from.name))
		}
		return nil
	}
	before := s.lines
	text, why := asText(in, head)
	if why == "" {
		if err := s.Log(Log{Name: show.Line(from.name), Text: text}); err != nil || s.lines > before {
			return err
		}
		why = "the file is empty" // except for a byte order mark
	}
	switch {
	case from.named:
		return fmt.Errorf("reading %s: %s", show.Line(from.name), why)
	case len(head) > 0:
		s.passed = append(s.passed, show.Line(from.name))
	}
	return nil
}

// asText decodes a text that begins with head, or says why the source is no text.
func asText(in *bufio.Reader, head []byte) (text io.Reader, why string) {
	switch {
	case len(head) == 0:
		return nil, "the file is empty"
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		_, _ = in.Discard(3) // it is in the buffer
		return in, ""
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return utf16.UTF16(utf16.LittleEndian, utf16.UseBOM).NewDecoder().Reader(in), ""
	}
	zeros := [2]int{}
	for i, c := range head {
		if c == 0 {
			zeros[i%2]++
		}
	}
	half, letters := len(head)/2, bytes.ReplaceAll(head, []byte{0}, nil)
	wide := half > 3 && isText(letters)
	switch {
	case wide && zeros[1]*2 > half && zeros[0]*20 <= half:
		return utf16.UTF16(utf16.LittleEndian, utf16.IgnoreBOM).NewDecoder().Reader(in), ""
	case wide && zeros[0]*2 > half && zeros[1]*20 <= half:
		return utf16.UTF16(utf16.BigEndian, utf16.IgnoreBOM).NewDecoder().Reader(in), ""
	case !isText(head):
		return nil, "the file is neither text nor an archive or compression that eksnode supports (gzip, zstd, " +
			"bzip2, xz, tar, zip)"
	}
	return in, ""
}

// isText says whether bytes look like a log. A part may be in another encoding, or
// lost in a crash.
func isText(head []byte) bool {
	strange, invalid := 0, 0
	for rest := head; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		rest = rest[size:]
		switch {
		case r == utf8.RuneError && size == 1 && len(rest) >= utf8.UTFMax:
			invalid++
		case unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' && r != '\x1b' && r != '\x1e':
			strange++
		}
	}
	return strange*10 <= len(head) && invalid*10 <= len(head)*3
}
