package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSumsAreWrittenAsSha256sumDoesAndCompared(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
	}
	write("a.zip", "a")
	write("b.zip", "b")
	require.NoError(t, writeSums(folder, "SUMS", []string{"a.zip", "b.zip"}))
	text, err := os.ReadFile(filepath.Join(folder, "SUMS"))
	require.NoError(t, err)
	const a = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
	assert.Equal(t, a+"  a.zip\n3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d  b.zip\n", string(text))

	require.NoError(t, checkSums(folder, "SUMS", []string{"a.zip", "b.zip"}))
	require.EqualError(t, checkSums(folder, "SUMS", []string{"a.zip"}), "comparing sums: SUMS lists 2 files, not 1")
	write("b.zip", "changed")
	require.ErrorContains(t, checkSums(folder, "SUMS", []string{"a.zip", "b.zip"}), "comparing sums: SUMS says ")
}
