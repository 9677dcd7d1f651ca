// Package expand reads files: compressed ones (gzip, zstd, bzip2 and xz), and large ones
// until a context ends.
package expand

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// windowMost bounds the memory of an expansion in bytes: the default maximum of
// zstd and xz.
const windowMost = 128 << 20

var errTooLarge = fmt.Errorf("expanding takes more than %d MiB of memory", windowMost>>20)

// TooLarge reports whether a content is not expanded because of the memory.
func TooLarge(err error) bool { return errors.Is(err, errTooLarge) }

// form is a way to compress a file.
type form struct {
	magic string
	open  func(io.Reader) (io.ReadCloser, error)
}

func forms() []form {
	return []form{
		{"\x1f\x8b", func(in io.Reader) (io.ReadCloser, error) { return gzip.NewReader(in) }},
		{"\x28\xb5\x2f\xfd", zstandard},
		{"BZh", func(in io.Reader) (io.ReadCloser, error) { return io.NopCloser(bzip2.NewReader(in)), nil }},
		{"\xfd7zXZ\x00", xzip},
	}
}

// Is reports whether the head of a file is that of a compressed file.
func Is(head []byte) bool {
	return slices.ContainsFunc(forms(), func(f form) bool { return bytes.HasPrefix(head, []byte(f.magic)) })
}

// Open returns the expanded content of the compressed file in. head is a copy of
// the file's beginning. The caller closes the result.
func Open(head []byte, in io.Reader) (io.ReadCloser, error) {
	for _, f := range forms() {
		if bytes.HasPrefix(head, []byte(f.magic)) {
			return f.open(in)
		}
	}
	return nil, fmt.Errorf("the compression of a file that begins with %.8q is not supported", head)
}

func zstandard(in io.Reader) (io.ReadCloser, error) {
	d, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(windowMost))
	if err != nil {
		return nil, err
	}
	return zstdReader{d.IOReadCloser()}, nil
}

type zstdReader struct{ io.ReadCloser }

func (z zstdReader) Read(p []byte) (int, error) {
	n, err := z.ReadCloser.Read(p)
	if errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		err = errTooLarge
	}
	return n, err
}

// xzip opens an xz file, unless its first block needs more memory than windowMost.
// Source: https://tukaani.org/xz/xz-file-format.txt, sections 2.1.1, 3.1 and 5.3.1.
func xzip(in io.Reader) (io.ReadCloser, error) {
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
	if _, size, ok := bytes.Cut(head[14:], []byte(lzma2)); ok && len(size) > 0 &&
		(2|int64(size[0])&1)<<(size[0]/2+11) > windowMost {
		return nil, errTooLarge
	}
	d, err := xz.NewReader(buffered)
	return io.NopCloser(d), err
}

// Until returns a reader that fails when the context ends.
func Until(ctx context.Context, in io.Reader) io.Reader { return until{ctx, in} }

type until struct {
	ctx context.Context
	in  io.Reader
}

func (u until) Read(p []byte) (int, error) {
	if err := context.Cause(u.ctx); err != nil {
		return 0, err
	}
	return u.in.Read(p)
}

// buffers are shared by all copies, because an audit reads many files.
var buffers = sync.Pool{New: func() any { return new([128 << 10]byte) }}

// WriteTo implements io.WriterTo.
func (u until) WriteTo(to io.Writer) (int64, error) {
	buffer := buffers.Get().(*[128 << 10]byte)
	defer buffers.Put(buffer)
	return io.CopyBuffer(to, struct{ io.Reader }{u}, buffer[:])
}
