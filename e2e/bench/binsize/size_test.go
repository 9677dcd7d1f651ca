package binsize

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMeasureAndPacked(t *testing.T) {
	text := bytes.Repeat([]byte("the same again and again\n"), 4000)
	file := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	measured, err := Measure(file)
	require.NoError(t, err)
	assert.EqualValues(t, len(text), measured.Stripped)
	assert.Less(t, measured.Compressed, measured.Stripped/10)

	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	require.NoError(t, err)
	_, err = w.Write(text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	same, err := Packed(packed.Bytes())
	require.NoError(t, err)
	assert.Equal(t, measured, same)

	_, err = Packed(packed.Bytes()[:packed.Len()-9])
	require.ErrorContains(t, err, "unpacking a program: ")
	_, err = Measure(file + "-not-there")
	require.ErrorContains(t, err, "measuring a program: ")
}
