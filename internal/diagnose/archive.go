package diagnose

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/expand"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// form is a way to pack logs.
type form struct {
	is   func(head []byte) bool
	read func(*Search, source) error
}

func forms() []form {
	return []form{
		{expand.Is, (*Search).compressed},
		{begins(journalMagic), (*Search).journal},
		{begins("PK\x03\x04"), (*Search).zip},
		{begins("PK\x05\x06"), (*Search).zip}, // an empty archive
		{func(head []byte) bool { return len(head) > 262 && string(head[257:262]) == "ustar" }, (*Search).tar},
	}
}

func begins(magic string) func([]byte) bool {
	return func(head []byte) bool { return bytes.HasPrefix(head, []byte(magic)) }
}

// compressed reads the content of a compressed file.
func (s *Search) compressed(from source) error {
	head, err := from.in.(*bufio.Reader).Peek(sniffed)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading %s: %w", from.name, err)
	}
	in, err := expand.Open(head, from.in)
	if err != nil {
		return fmt.Errorf("reading %s: %w", from.name, cut(err))
	}
	defer in.Close()
	from.in, from.whole, from.file = &expanded{in, s}, nil, ""
	from.inner = compression().ReplaceAllString(from.inner, "")
	return s.read(from)
}

// compression matches the extension of a compressed file.
var compression = once(`(?i)\.(gz|zst|bz2|xz)$`)

// expanded is content of an archive. It counts against the search's budget.
type expanded struct {
	in io.Reader
	s  *Search
}

// Read implements io.Reader.
func (e *expanded) Read(p []byte) (int, error) {
	n, err := e.in.Read(p)
	e.s.budget -= int64(n)
	if e.s.budget < 0 {
		return 0, fmt.Errorf("the expanded content has more than %d MiB; unpack only the logs that matter",
			expandMost>>20)
	}
	return n, cut(err)
}

// cut explains an unexpected end.
func cut(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file is cut off")
	}
	return err
}

// tar reads the regular files of a tar archive.
func (s *Search) tar(from source) error {
	before, errs := s.texts, []error(nil)
	for archive := tar.NewReader(from.in); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("reading %s: %w", from.name, cut(err)))...)
		}
		if header.Typeflag == tar.TypeReg {
			errs = append(errs, s.member(from, header.Name, archive))
		}
		if s.budget < 0 || s.ctx.Err() != nil {
			return errors.Join(errs...)
		}
	}
	return errors.Join(append(errs, s.held(from, before))...)
}

// zipMost bounds zip archives in streams, in bytes: a zip archive can only be read
// from its end.
const zipMost = 256 << 20

// zip reads the files of a zip archive.
func (s *Search) zip(from source) error {
	if from.whole == nil {
		text, err := io.ReadAll(io.LimitReader(from.in, zipMost+1))
		if err == nil && len(text) > zipMost {
			err = fmt.Errorf("a zip archive from a stream may have at most %d MiB; write it to a file, or unpack it",
				zipMost>>20)
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", from.name, err)
		}
		from.whole = io.NewSectionReader(bytes.NewReader(text), 0, int64(len(text)))
	}
	archive, err := zip.NewReader(from.whole, from.whole.Size())
	if err != nil {
		return fmt.Errorf("reading %s: %w", from.name, cut(err))
	}
	before, errs := s.texts, []error(nil)
	for _, f := range archive.File {
		if !f.Mode().IsRegular() {
			continue
		}
		in, err := f.Open()
		if err != nil {
			errs = append(errs, fmt.Errorf("reading %s:%s: %w", from.name, show.Line(f.Name), err))
			continue
		}
		errs = append(errs, s.member(from, f.Name, in), in.Close())
		if s.budget < 0 || s.ctx.Err() != nil {
			return errors.Join(errs...)
		}
	}
	return errors.Join(append(errs, s.held(from, before))...)
}

// member reads a file of an archive.
func (s *Search) member(from source, name string, in io.Reader) error {
	return s.read(source{name: from.name + ":" + show.Line(path.Clean(name)), in: &expanded{in, s}, depth: from.depth,
		inner: path.Clean(name)})
}

// held returns an error when an archive that a person named contained no log.
func (s *Search) held(from source, before int) error {
	if s.texts > before || !from.named {
		return nil
	}
	return fmt.Errorf("reading %s: the archive contains no readable log", from.name)
}
