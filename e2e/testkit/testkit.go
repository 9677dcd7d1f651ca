// Package testkit is test code. It reads files and runs programs; what fails, fails the test.
package testkit

import (
	"os"
	"os/exec"
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

// Run runs a program and returns its output. The error has the output too.
func Run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s %q: %s", name, args, out)
	return string(out)
}
