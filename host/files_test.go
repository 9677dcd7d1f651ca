//go:build linux

package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// image is an image root inside a folder that must not change.
type image struct {
	*Host
	outside string // the folder around the root
	root    string
}

func newImage(t *testing.T) image {
	t.Helper()
	outside := t.TempDir()
	root := filepath.Join(outside, "tree")
	require.NoError(t, os.MkdirAll(filepath.Join(root, "etc"), 0o755))
	// A sibling folder whose name starts with the root's name.
	require.NoError(t, os.MkdirAll(filepath.Join(outside, "tree-evil"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(outside, "tree-evil", "secret"), []byte("outside"), 0o600))
	return image{Host: mounted(t, root), outside: outside, root: root}
}

// mounted returns the image root in a folder, until the test ends.
func mounted(t *testing.T, root string) *Host {
	t.Helper()
	h, err := Mounted(root)
	return untilTheEnd(t, h, err)
}

// live returns this machine, until the test ends.
func live(t *testing.T) *Host {
	t.Helper()
	h, err := Live()
	return untilTheEnd(t, h, err)
}

func untilTheEnd(t *testing.T, h *Host, err error) *Host {
	t.Helper()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	return h
}

func (i image) link(t *testing.T, target, name string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(i.root, name)), 0o755))
	require.NoError(t, os.Symlink(target, filepath.Join(i.root, name)))
}

func (i image) put(t *testing.T, name, content string) {
	t.Helper()
	p := filepath.Join(i.root, name)
	testkit.Write(t, p, content)
}

func (i image) outsideIntact(t *testing.T) {
	t.Helper()
	assert.Equal(t, "outside", testkit.Content(t, filepath.Join(i.outside, "tree-evil", "secret")))
}

func TestLinksStayInsideTheRoot(t *testing.T) {
	i := newImage(t)
	for name, target := range map[string]string{
		"absolute":     filepath.Join(i.outside, "tree-evil"),
		"up":           "../tree-evil",
		"far-up":       "../../../../../../../../../.." + i.outside + "/tree-evil",
		"via-root":     "/../tree-evil",
		"via-absolute": "/up",
	} {
		i.link(t, target, name)
		for _, p := range []string{"/" + name + "/secret", "/etc/../" + name + "/secret"} {
			_, err := afero.ReadFile(i.Files, p)
			assert.ErrorIs(t, err, fs.ErrNotExist, p)
			_, err = i.Files.Stat(p)
			assert.ErrorIs(t, err, fs.ErrNotExist, p)
			assert.Error(t, i.Files.Truncate(p), p)
			_, err = i.Files.RemoveTree(p)
			assert.NoError(t, err, p) // a path that is missing inside the root: nothing to remove
		}
	}
	i.outsideIntact(t)
}

func TestAbsoluteLinksResolveInsideTheRoot(t *testing.T) {
	i := newImage(t)
	i.put(t, "data/kubelet/pki/key", "inside")
	i.link(t, "/data/kubelet", "var/lib/kubelet")
	got, err := afero.ReadFile(i.Files, "/var/lib/kubelet/pki/key")
	require.NoError(t, err)
	assert.Equal(t, "inside", string(got))

	names, err := afero.Glob(i.Files, "/var/lib/kubelet/pki/*")
	require.NoError(t, err)
	assert.Equal(t, []string{"/var/lib/kubelet/pki/key"}, names)
}

func TestALinkLoopIsAnError(t *testing.T) {
	i := newImage(t)
	i.link(t, "/b", "a")
	i.link(t, "/a", "b")
	_, err := i.Files.Stat("/a/file")
	assert.ErrorIs(t, err, unix.ELOOP)

	i.put(t, "l0", "x") // Linux follows 40 links
	for n := range 41 {
		i.link(t, fmt.Sprintf("../l%d", n), fmt.Sprintf("l%d", n+1))
	}
	_, err = i.Files.Stat("/l40")
	require.NoError(t, err)
	_, err = i.Files.Stat("/l41")
	assert.ErrorIs(t, err, unix.ELOOP)

	for _, size := range []int{255, 256, 257, 600} { // bytes of a target
		target := strings.Repeat("/", size-len("l0")) + "l0"
		i.link(t, target, fmt.Sprint("long", size))
		read, err := i.Files.ReadlinkIfPossible(fmt.Sprint("/long", size))
		require.NoError(t, err)
		assert.Equal(t, target, read)
	}
}

func TestWritesThroughLinksStayInside(t *testing.T) {
	i := newImage(t)
	i.link(t, "/../../tree-evil/secret", "etc/hostname")
	err := i.Files.WriteFile("/etc/hostname", []byte("new"), Attributes{Mode: 0o600})
	assert.Error(t, err) // its folder does not exist inside the root
	i.outsideIntact(t)

	i.link(t, "../../../../etc/real", "etc/alias")
	require.NoError(t, i.Files.WriteFile("/etc/alias", []byte("new"), Attributes{Mode: 0o640}))
	assert.Equal(t, "new", testkit.Content(t, filepath.Join(i.root, "etc/real")))
	st, err := os.Lstat(filepath.Join(i.root, "etc/alias"))
	require.NoError(t, err)
	assert.Equal(t, fs.ModeSymlink, st.Mode().Type(), "the link must stay")
}

// O_CREATE with O_EXCL makes the named file itself. It follows no link in its place.
func TestANewFileIsNotBehindALink(t *testing.T) {
	i := newImage(t)
	i.link(t, "/etc/new", "etc/alias")
	_, err := i.Files.OpenFile("/etc/alias", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	require.ErrorIs(t, err, fs.ErrExist)
	assert.NoFileExists(t, filepath.Join(i.root, "etc/new"))
	f, err := i.Files.OpenFile("/etc/alias", os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	assert.FileExists(t, filepath.Join(i.root, "etc/new"))
}

func TestMkdirAll(t *testing.T) {
	i := newImage(t)
	i.put(t, "etc/file", "x")
	i.link(t, "/etc/d", "etc/alias")
	require.NoError(t, i.Files.MkdirAll("/etc/d/e/f", 0o750))
	require.NoError(t, i.Files.MkdirAll("/etc/d/e/f", 0o700))
	require.NoError(t, i.Files.MkdirAll("/etc/alias/e/g", 0o700))
	assert.DirExists(t, filepath.Join(i.root, "etc/d/e/g"))
	made, err := i.Files.Stat("/etc/d/e/f")
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o750), made.Mode().Perm())
	assert.EqualError(t, i.Files.MkdirAll("/etc/file", 0o700), "mkdir /etc/file: not a directory")
	assert.ErrorIs(t, i.Files.MkdirAll("/etc/file/x", 0o700), unix.ENOTDIR)
}

func TestReaddirStaysInsideTheRoot(t *testing.T) {
	i := newImage(t)
	i.put(t, "only/inside", "12345")
	dir, err := i.Files.Open("/only")
	require.NoError(t, err)
	defer dir.Close()
	list, err := dir.Readdir(-1)
	require.NoError(t, err)
	require.Len(t, list, 1)
	assert.Equal(t, int64(5), list[0].Size())
}

func TestReplaceKeepsTheOldFileWhenFillingFails(t *testing.T) {
	i := newImage(t)
	i.put(t, "etc/config", "old")
	full := errors.New("disk full")
	err := i.Files.Replace("/etc/config", Attributes{Mode: 0o644}, func(w io.Writer) error {
		_, _ = w.Write([]byte("half"))
		return full
	})
	assert.ErrorIs(t, err, full)
	assert.EqualError(t, err, "write /etc/config: disk full")
	got, err := afero.ReadFile(i.Files, "/etc/config")
	require.NoError(t, err)
	assert.Equal(t, "old", string(got))
	assert.Len(t, testkit.Names(t, filepath.Join(i.root, "etc")), 1, "no temporary file remains")
}

func TestWriteFileKeepsLabels(t *testing.T) {
	i := newImage(t)
	i.put(t, "etc/labelled", "old")
	p := filepath.Join(i.root, "etc/labelled")
	require.NoError(t, unix.Setxattr(p, "user.label", []byte("node"), 0))
	require.NoError(t, i.Files.WriteFile("/etc/labelled", []byte("new"), Attributes{Mode: 0o600, UID: os.Getuid(), GID: os.Getgid()}))
	value := make([]byte, 16)
	n, err := unix.Getxattr(p, "user.label", value)
	require.NoError(t, err)
	assert.Equal(t, "node", string(value[:n]))
	attr, err := i.Files.Attributes("/etc/labelled")
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), attr.Mode)
}

func TestOpeningAFIFODoesNotBlock(t *testing.T) {
	i := newImage(t)
	require.NoError(t, unix.Mkfifo(filepath.Join(i.root, "etc/fifo"), 0o600))
	f, err := i.Files.Open("/etc/fifo")
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func TestMountedRefusesTheMachinesOwnRoot(t *testing.T) {
	link := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.Symlink("/", link))
	for _, root := range []string{"/", link} {
		_, err := Mounted(root)
		assert.ErrorContains(t, err, "this folder is the running machine's own root")
	}
	_, err := Mounted(filepath.Join(link, "no-such-folder"))
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

func TestNothingRunsFromAnImageRoot(t *testing.T) {
	i := newImage(t)
	_, err := i.Run(t.Context(), Command{Argv: []string{"true"}})
	assert.ErrorIs(t, err, ErrMountedRoot)
	assert.ErrorIs(t, i.Unmount("/etc"), ErrMountedRoot)
	assert.False(t, i.HasCommand("true"))
	assert.False(t, i.HasSystemd())
}

// FuzzResolve creates links and walks a path. Every opened file lies below the root.
func FuzzResolve(f *testing.F) {
	f.Add("/a/../b", "../..", "/etc")
	f.Add("a//b/./c", "/", "..")
	f.Add("/../../x", "/a/b", "a/../../..")
	f.Fuzz(func(t *testing.T, name, first, second string) {
		i := newImage(t)
		_ = os.Symlink(first, filepath.Join(i.root, "a"))
		_ = os.Symlink(second, filepath.Join(i.root, "b"))
		p, err := i.Files.resolve(name, true)
		if err != nil {
			return
		}
		defer p.close()
		real, err := realPathOf(p.dir)
		require.NoError(t, err)
		if real != i.root && len(real) <= len(i.root) || real != i.root && real[:len(i.root)+1] != i.root+"/" {
			t.Fatalf("%q led to %s", name, real)
		}
	})
}

func TestTrailListsLinksAndTarget(t *testing.T) {
	i := newImage(t)
	i.put(t, "usr/lib/systemd/systemd", "x")
	i.put(t, "data/v1/conf", "x")
	i.link(t, "usr/lib", "lib")
	i.link(t, "v1", "data/latest")
	i.link(t, "/data/latest", "current")
	i.link(t, "../../../../data", "usr/up")
	i.link(t, "circle", "circle")
	h := &Host{Files: i.Files, root: i.root}
	for name, c := range map[string]struct {
		follow bool
		links  []string
		place  string
	}{
		"/usr/lib/systemd":      {place: "/usr/lib/systemd"},
		"//lib//systemd/":       {links: []string{"/lib"}, place: "/usr/lib/systemd"},
		"/lib":                  {place: "/lib"},
		"/lib/":                 {follow: true, links: []string{"/lib"}, place: "/usr/lib"},
		"/current/conf":         {links: []string{"/current", "/data/latest"}, place: "/data/v1/conf"},
		"/usr/up/latest/none/x": {links: []string{"/usr/up", "/data/latest"}, place: "/data/v1/none/x"},
		"/lib/../up":            {follow: true, links: []string{"/lib", "/usr/up"}, place: "/data"},
		"/data/v1/conf/below":   {place: "/data/v1/conf/below"},
		"/":                     {place: "/"},
	} {
		links, place, err := h.Trail(name, c.follow)
		require.NoError(t, err, name)
		assert.Equal(t, c.links, links, name)
		assert.Equal(t, c.place, place, name)
	}
	_, _, err := h.Trail("/circle/x", false)
	require.EqualError(t, err, "resolving /circle/x: too many levels of symbolic links")
}
