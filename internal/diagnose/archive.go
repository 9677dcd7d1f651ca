package diagnose

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// form is a way to pack logs.
type form struct {
	is   func(head []byte) bool
	read func(*Search, source) error
}

func forms() []form {
	return []form{
		{begins("\x1f\x8b"), expand(func(in io.Reader) (io.Reader, error) { return gzip.NewReader(in) })},
		{begins("\x28\xb5\x2f\xfd"), expand(zstandard)},
		{begins("BZh"), expand(func(in io.Reader) (io.Reader, error) { return bzip2.NewReader(in), nil })},
		{begins("\xfd7zXZ\x00"), expand(xzip)},
		{begins("PK\x03\x04"), (*Search).zip},
		{begins("PK\x05\x06"), (*Search).zip}, // an empty archive
		{func(head []byte) bool { return len(head) > 262 && string(head[257:262]) == "ustar" }, (*Search).tar},
	}
}

func begins(magic string) func([]byte) bool {
	return func(head []byte) bool { return bytes.HasPrefix(head, []byte(magic)) }
}

// windowMost bounds the memory of an expansion in bytes: the default maximum of
// zstd and xz.
const windowMost = 128 << 20

func zstandard(in io.Reader) (io.Reader, error) {
	d, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(windowMost))
	if err != nil {
		return nil, err
	}
	return d.IOReadCloser(), nil
}

// xzip opens an xz file, unless its first block needs more memory than windowMost.
// Source: https://tukaani.org/xz/xz-file-format.txt, sections 2.1.1, 3.1 and 5.3.1.
func xzip(in io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(in)
	head, err := buffered.Peek(13)
	if err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	head, err = buffered.Peek(12 + (int(head[12])+1)*4)
	if err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	const lzma2 = "\x21\x01" // the filter, and the length of its properties
	if _, size, ok := bytes.Cut(head[14:], []byte(lzma2)); ok && len(size) > 0 && (2|int64(size[0])&1)<<(size[0]/2+11) > windowMost {
		return nil, fmt.Errorf("expanding takes more than %d MiB of memory", windowMost>>20)
	}
	return xz.NewReader(buffered)
}

// expand reads the content of a compressed file.
func expand(open func(io.Reader) (io.Reader, error)) func(*Search, source) error {
	return func(s *Search, from source) error {
		in, err := open(from.in)
		if err != nil {
			return fmt.Errorf("reading %s: %w", from.name, cut(err))
		}
		from.in, from.whole = &expanded{in, s}, nil
		return s.read(from)
	}
}

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
		return 0, fmt.Errorf("the expanded content has more than %d MiB; unpack only the logs that matter", expandMost>>20)
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
			err = fmt.Errorf("a zip archive from a stream may have at most %d MiB; write it to a file, or unpack it", zipMost>>20)
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
			errs = append(errs, fmt.Errorf("reading %s:%s: %w", from.name, printable(f.Name), err))
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
	return s.read(source{name: from.name + ":" + printable(path.Clean(name)), in: &expanded{in, s}, depth: from.depth})
}

// held returns an error when an archive that a person named contained no log.
func (s *Search) held(from source, before int) error {
	if s.texts > before || !from.named {
		return nil
	}
	return fmt.Errorf("reading %s: the archive contains no readable log", from.name)
}
