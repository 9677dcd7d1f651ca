// Package testkit is test code. It reads files and runs programs; what fails, fails the test.
package testkit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"
)

// Content returns the content of a file.
func Content(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// Expanded returns the content of a file that xz has compressed.
func Expanded(t testing.TB, path string) string {
	t.Helper()
	in, err := os.Open(path)
	require.NoError(t, err)
	defer in.Close()
	x, err := xz.NewReader(in)
	require.NoError(t, err)
	text, err := io.ReadAll(x)
	require.NoError(t, err)
	return string(text)
}

// Run runs a program and returns its output. The error has the output too.
func Run(t testing.TB, name string, args ...string) string {
	t.Helper()
	return Output(t, exec.Command(name, args...))
}

// In runs a program in a folder and returns its standard output. The error has both outputs.
func In(t testing.TB, folder, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = folder
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	require.NoError(t, err, "%q:\n%s%s", cmd.Args, out, said.String())
	return string(out)
}

// Output is what a command writes, which must succeed.
func Output(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%q: %s", cmd.Args, out)
	return string(out)
}

// Released waits until no loop device has a file below the path. A program that looks at every
// device can hold one for a moment, and mount would use it again, read-only and with old pages.
func Released(t testing.TB, path string) {
	t.Helper()
	require.Eventually(t, func() bool {
		return !strings.Contains(Run(t, "losetup", "--list", "--noheadings", "--output", "BACK-FILE"), path)
	}, time.Minute, 10*time.Millisecond, path)
}

// LastLine returns the last line of an output.
func LastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// Names returns the names of the files in a folder.
func Names(t testing.TB, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// Glob returns the files that a pattern matches.
func Glob(t testing.TB, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	require.NoError(t, err)
	return found
}

// Sum returns the SHA-256 of a file, which may be larger than the memory.
func Sum(t testing.TB, path string) string {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	hash := sha256.New()
	_, err = io.Copy(hash, f)
	require.NoError(t, err)
	return hex.EncodeToString(hash.Sum(nil))
}

// InMemory is a folder in memory, where there is one: for thousands of small files, and for
// etcd, tests would mostly wait for the disk.
func InMemory(t testing.TB) string {
	folder, err := os.MkdirTemp("/dev/shm", "eksnode-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	return folder
}

// Write makes a file, and the folders above it.
func Write(t testing.TB, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// JSON reads a value from its text.
func JSON[T any, S string | []byte](t testing.TB, text S) (value T) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &value), "%s", text)
	return value
}

// Allocated returns how many bytes work allocates, also those that are free again.
func Allocated(work func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
