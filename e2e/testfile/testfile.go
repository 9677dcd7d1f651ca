// Package testfile is test code. It reads what a test compares; an error fails the test.
package testfile

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Content returns the content of a file.
func Content(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// Names returns the names in a folder, sorted.
func Names(t testing.TB, path string) []string {
	t.Helper()
	entries, err := os.ReadDir(path)
	require.NoError(t, err)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}
