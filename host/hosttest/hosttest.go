// Package hosttest makes image roots for tests of rules, steps and distributions.
//
// There is no host in memory. Rules open folders by descriptor, follow links below
// the root with openat2(2), read owners, extended attributes and mounts, and
// compare devices and inodes. A file system in memory, such as afero's MemMapFs, has
// none of these, so a test on it would pass where the real run fails. A root in a
// temporary folder behaves as an image does, and takes about a millisecond.
package hosttest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// Root returns an image root with these files, by their absolute paths on the
// machine. A path with a slash at its end is a folder, and a content that begins with
// "-> " is a symbolic link, also with a line end. The root vanishes with the test.
func Root(t testing.TB, files map[string]string) *host.Host {
	t.Helper()
	root := t.TempDir()
	Lay(t, root, files)
	return Mounted(t, root)
}

// Lay puts files into a folder, in the form of Root.
func Lay(t testing.TB, root string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		if err := put(filepath.Join(root, name), strings.HasSuffix(name, "/"), content); err != nil {
			t.Fatalf("making the image root: %v", err)
		}
	}
}

// Mounted returns the image root in a folder, until the test ends.
func Mounted(t testing.TB, root string) *host.Host {
	t.Helper()
	h, err := host.Mounted(root)
	return untilTheEnd(t, h, err)
}

// Live returns this machine, until the test ends.
func Live(t testing.TB) *host.Host {
	t.Helper()
	h, err := host.Live()
	return untilTheEnd(t, h, err)
}

func untilTheEnd(t testing.TB, h *host.Host, err error) *host.Host {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func put(name string, folder bool, content string) error {
	if folder {
		return os.MkdirAll(name, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if to, ok := strings.CutPrefix(content, "-> "); ok {
		return os.Symlink(strings.TrimSuffix(to, "\n"), name)
	}
	return os.WriteFile(name, []byte(content), 0o644)
}
