package testkit

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
)

// Tar returns an archive of files with one mode, given as pairs of name and content.
func Tar(mode int64, pairs ...string) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i := 0; i < len(pairs); i += 2 {
		if err := w.WriteHeader(&tar.Header{Name: pairs[i], Mode: mode, Size: int64(len(pairs[i+1]))}); err != nil {
			panic(err) // a fault of the test
		}
		_, _ = io.WriteString(w, pairs[i+1]) // into memory
	}
	_ = w.Close() // into memory
	return out.Bytes()
}

// Zip returns an archive of files, given as pairs of name and content.
func Zip(t testing.TB, pairs ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for i := 0; i < len(pairs); i += 2 {
		file, err := w.Create(pairs[i])
		require.NoError(t, err)
		_, err = io.WriteString(file, pairs[i+1])
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

// Packed returns a text compressed by the writer that open returns.
func Packed[W io.WriteCloser](t testing.TB, open func(io.Writer) (W, error), text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := open(&out)
	require.NoError(t, err)
	_, err = io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

// Gzip returns a text that gzip has compressed.
func Gzip[S string | []byte](text S) []byte {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write([]byte(text)) // into memory
	_ = w.Close()
	return packed.Bytes()
}

// UTF16 returns a text in UTF-16. The mark of the byte order is \ufeff.
func UTF16(order binary.AppendByteOrder, text string) string {
	var out []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		out = order.AppendUint16(out, unit)
	}
	return string(out)
}
