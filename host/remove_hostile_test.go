//go:build linux

package host

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// remover is one way to remove.
type remover struct {
	name string
	do   func(*Files, string) (Removal, error)
}

var removers = []remover{{"tree", (*Files).RemoveTree}, {"contents", (*Files).RemoveContents}}

// A link in place of a folder may lead up or in a circle. Only files that the caller
// names are removed.
func TestRemovalRefusesLinksUpOrInCircles(t *testing.T) {
	const up = "; replace the link by a folder"
	for _, c := range []struct {
		name, link, target, remove string
		tree, contents             string // expected error texts
	}{
		{
			name: "to the root", link: "var/lib/kubelet/pods", target: "/", remove: "/var/lib/kubelet/pods/etc",
			tree:     "remove /var/lib/kubelet/pods/etc: refusing to go through a link that leads up to /, where it lies itself" + up,
			contents: "remove /var/lib/kubelet/pods/etc: refusing to go through a link that leads to /etc, which is the system's" + up,
		},
		{
			name: "to the root, named itself", link: "tmp", target: "/", remove: "/tmp",
			contents: "remove /tmp: refusing to empty the machine's root; is it a link? replace it by a folder",
		},
		{
			name: "out of the root", link: "tmp", target: "../../../../../../..", remove: "/tmp",
			contents: "remove /tmp: refusing to empty the machine's root; is it a link? replace it by a folder",
		},
		{
			name: "to a folder above", link: "var/lib/kubelet/pods", target: "../..", remove: "/var/lib/kubelet/pods/lib",
			tree:     "remove /var/lib/kubelet/pods/lib: refusing to go through a link that leads up to /var, where it lies itself" + up,
			contents: "remove /var/lib/kubelet/pods/lib: refusing to go through a link that leads up to /var/lib, where it lies itself" + up,
		},
		{
			name: "to a system folder", link: "var/lib/kubelet/pods", target: "/etc", remove: "/var/lib/kubelet/pods/passwd",
			tree:     "remove /var/lib/kubelet/pods/passwd: refusing to go through a link that leads to /etc, which is the system's" + up,
			contents: "remove /var/lib/kubelet/pods/passwd: not a directory",
		},
		{
			name: "to a system folder, named itself", link: "tmp", target: "var/lib", remove: "/tmp",
			contents: "remove /tmp: refusing to go through a link that leads to /var/lib, which is the system's" + up,
		},
		{
			name: "to a folder of programs", link: "tmp", target: "usr/share", remove: "/tmp",
			contents: "remove /tmp: refusing to go through a link that leads to /usr/share, which is the system's" + up,
		},
		{
			name: "to its own folder", link: "var/lib/cni", target: ".", remove: "/var/lib/cni",
			contents: "remove /var/lib/cni: refusing to go through a link that leads up to /var/lib, where it lies itself" + up,
		},
		{
			name: "to itself", link: "var/lib/cni", target: "cni", remove: "/var/lib/cni",
			contents: "remove /var/lib/cni: too many levels of symbolic links",
		},
		{
			name: "in a circle", link: "var/lib/cni", target: "/var/lib/cni/x", remove: "/var/lib/cni/x/y",
			tree:     "remove /var/lib/cni/x/y: too many levels of symbolic links",
			contents: "remove /var/lib/cni/x/y: too many levels of symbolic links",
		},
	} {
		for n, want := range map[int]string{0: c.tree, 1: c.contents} {
			t.Run(c.name+"/"+removers[n].name, func(t *testing.T) {
				i := newImage(t)
				i.put(t, "etc/passwd", "x")
				i.put(t, "var/lib/dpkg/status", "x")
				i.put(t, "usr/share/file", "x")
				i.link(t, c.target, c.link)
				i.untouched(t)
				before := surrounding(t, i.root, "")
				gone, err := removers[n].do(i.Files, c.remove)
				if want != "" {
					require.EqualError(t, err, want)
					assert.Zero(t, gone)
					assert.Equal(t, before, surrounding(t, i.root, ""), "something was removed")
					return
				}
				require.NoError(t, err)
				assert.Equal(t, int64(1), gone.Entries, "only the link is removed")
				delete(before, filepath.Join(i.root, c.link))
				assert.Equal(t, before, surrounding(t, i.root, ""))
			})
		}
	}
}

// Links that an administrator or a distribution made on purpose are followed.
func TestRemovalFollowsLinksToOtherFolders(t *testing.T) {
	for link, target := range map[string]string{
		"var/lib/kubelet/pods": "/data/pods", "etc/cni/net.d": "/etc/kubernetes/cni", "lib": "usr/lib", "var/mail": "spool/mail", "tmp": "var/tmp",
	} {
		i := newImage(t)
		where := target
		if !filepath.IsAbs(target) {
			where = filepath.Join("/", filepath.Dir(link), target)
		}
		i.put(t, where[1:]+"/x/file", "x")
		i.link(t, target, link)
		gone, err := i.Files.RemoveTree("/" + link + "/x")
		require.NoError(t, err, link)
		assert.Equal(t, int64(2), gone.Entries, link)
	}
}

// Truncate refuses the same links.
func TestTruncateRefusesTheSameLinks(t *testing.T) {
	i := newImage(t)
	i.put(t, "etc/passwd", "x")
	i.put(t, "data/log/messages", "x")
	i.link(t, "/etc", "var/log")
	i.link(t, "/data/log", "var/moved")
	assert.EqualError(t, i.Files.Truncate("/var/log/passwd"),
		"truncate /var/log/passwd: refusing to go through a link that leads to /etc, which is the system's; replace the link by a folder")
	assert.NoError(t, i.Files.Truncate("/var/moved/messages"))
}

// A name that ends in "..", or contains it, stays in the root. No folder is removed
// through such a name.
func TestDotDotInNamesStaysInTheRoot(t *testing.T) {
	i := newImage(t)
	i.put(t, "etc/keep", "x")
	i.put(t, "var/..x/...", "x")
	i.put(t, "var/gone", "x")
	i.untouched(t)
	for _, name := range []string{
		"/", "", "//.", "/.", "/..", "/etc/..", "/var/..", "/var/../..", "/../..", "../../tree-evil/..",
	} {
		_, err := i.Files.RemoveTree(name)
		if name == "../../tree-evil/.." { // there is no such folder inside
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, `: refusing to remove the machine's root or a folder that is named by ".."`, name)
	}
	_, err := i.Files.RemoveContents("/var/../..")
	require.EqualError(t, err, "remove /var/../..: refusing to empty the machine's root; is it a link? replace it by a folder")
	gone, err := i.Files.RemoveTree("/../../etc/../var/gone")
	require.NoError(t, err)
	assert.Equal(t, int64(1), gone.Entries)
	assert.FileExists(t, filepath.Join(i.root, "var/..x/..."))
	gone, err = i.Files.RemoveTree("/var/..x")
	require.NoError(t, err)
	assert.Equal(t, int64(2), gone.Entries)
	assert.FileExists(t, filepath.Join(i.root, "etc/keep"))
}

// With nested mounts, two mounts at one place and a mount of the machine's own
// /etc, nothing is removed, neither in the mounts nor next to them.
func TestNestedMountsStopARemoval(t *testing.T) {
	for _, r := range removers {
		t.Run(r.name, func(t *testing.T) {
			i := newImage(t)
			i.put(t, "var/lib/kubelet/pods/first", "x")
			volumes := filepath.Join(i.root, "var/lib/kubelet/pods/uid/volumes")
			i.bind(t, filepath.Join(i.outside, "tree-evil"), volumes)
			i.bind(t, filepath.Join(i.outside, "tree-evil"), volumes)
			inner := filepath.Join(i.outside, "tree-evil", "new\nline \\040")
			i.bind(t, "/etc", inner)
			i.bind(t, "/etc", filepath.Join(volumes, "new\nline \\040"))
			etc := surrounding(t, "/etc", "")
			evil := surrounding(t, filepath.Join(i.outside, "tree-evil"), inner)

			gone, err := r.do(i.Files, "/var/lib/kubelet/pods")
			require.EqualError(t, err, "remove /var/lib/kubelet/pods: /var/lib/kubelet/pods/uid/volumes/new\nline \\040: something is mounted there; unmount it first (files below a mount belong to another file system)")
			assert.Zero(t, gone)
			assert.FileExists(t, filepath.Join(i.root, "var/lib/kubelet/pods/first"))
			assert.Equal(t, evil, surrounding(t, filepath.Join(i.outside, "tree-evil"), inner))
			assert.Equal(t, etc, surrounding(t, "/etc", ""))

			mounts, err := i.Files.MountsBelow("/var/lib/kubelet")
			require.NoError(t, err)
			var paths []string
			for _, m := range mounts {
				paths = append(paths, m.Path)
			}
			at := "/var/lib/kubelet/pods/uid/volumes"
			assert.Equal(t, []string{at + "/new\nline \\040", at, at}, paths)
			var mounted *MountedError
			_, err = i.Files.RemoveTree(at)
			require.ErrorAs(t, err, &mounted, "a mount point")
		})
	}
}

// A tree deeper than PATH_MAX (4096 bytes), and deeper than the process's limit of
// open files, is measured and removed completely.
func TestTreesDeeperThanAnyPathAreRemoved(t *testing.T) {
	for _, r := range removers {
		t.Run(r.name, func(t *testing.T) {
			i := newImage(t)
			i.put(t, "top/beside", "x")
			const depth, branches = 700, 5
			for b := range branches {
				fd, err := unix.Open(filepath.Join(i.root, "top"), unix.O_PATH|unix.O_DIRECTORY, 0)
				require.NoError(t, err)
				name := strings.Repeat(string(rune('a'+b)), 40)
				for range depth {
					require.NoError(t, unix.Mkdirat(fd, name, 0o755))
					below, err := unix.Openat(fd, name, unix.O_PATH|unix.O_DIRECTORY, 0)
					require.NoError(t, err)
					require.NoError(t, unix.Close(fd))
					fd = below
				}
				require.NoError(t, unix.Symlinkat(i.outside, fd, "bottom"))
				require.NoError(t, unix.Close(fd))
			}
			i.untouched(t)
			limitFiles(t, 400)
			measured, err := i.Files.Measure("/top", r.name == "contents")
			require.NoError(t, err)
			gone, err := r.do(i.Files, "/top")
			require.NoError(t, err)
			assert.Equal(t, gone, measured)
			want := int64(branches*(depth+1) + 1)
			if r.name == "tree" {
				want++
				assert.NoDirExists(t, filepath.Join(i.root, "top"))
			} else {
				assert.Empty(t, testkit.Names(t, filepath.Join(i.root, "top")))
			}
			assert.Equal(t, want, gone.Entries)
		})
	}
}

func limitFiles(t *testing.T, files uint64) {
	t.Helper()
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: files, Max: old.Max}))
	t.Cleanup(func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old)) })
}

// The error for an immutable file deep in a tree contains its full original path.
func TestErrorsNameTheFullDeepPath(t *testing.T) {
	i := newImage(t)
	deep := "top" + strings.Repeat("/d", 3*deepest)
	i.put(t, deep+"/locked", "x")
	locked := filepath.Join(i.root, deep, "locked")
	chattr(t, "+i", locked)
	inode := stat(t, locked).Ino
	t.Cleanup(func() { // it may have been moved
		out := filepath.Join(i.root, "top")
		testkit.Run(t, "find", out, "-inum", itoa(inode), "-exec", "chattr", "-i", "{}", "+")
	})
	_, err := i.Files.RemoveTree("/top")
	require.EqualError(t, err, "remove /"+deep+"/locked: operation not permitted (immutable or append-only? see lsattr; chattr -ia clears it)")
}

func TestLongPathsAreShortened(t *testing.T) {
	assert.Equal(t, "/a", shortened("/a"))
	long := shortened("/start" + strings.Repeat("x", 5000) + "end")
	assert.Len(t, long, unix.PathMax+len("…"))
	assert.Regexp(t, "^/startx+…x+end$", long)
}

// Two removals of the same tree do not disturb each other, nor does a service that
// cleans up meanwhile.
func TestTwoRemovalsOfTheSameTree(t *testing.T) {
	i := newImage(t)
	for a := range 40 {
		for b := range 10 {
			i.put(t, filepath.Join("busy", itoa(uint64(a)), itoa(uint64(b)), "file"), "x")
		}
	}
	start := make(chan struct{})
	var both sync.WaitGroup
	var errs [2]error
	var gone [2]Removal
	for n := range 2 {
		both.Go(func() {
			<-start
			gone[n], errs[n] = i.Files.RemoveTree("/busy")
		})
	}
	close(start)
	both.Wait()
	require.NoError(t, errs[0])
	require.NoError(t, errs[1])
	assert.NoDirExists(t, filepath.Join(i.root, "busy"))
	assert.Equal(t, int64(1+40+400+400), gone[0].Entries+gone[1].Entries, "each entry is counted once")
}

// On a file system that is mounted read-only nothing changes, and the error
// contains the remedy.
func TestErrorsOnAReadOnlyDiskHaveTheRemedy(t *testing.T) {
	disk := newDisk(t, 8)
	testkit.Write(t, filepath.Join(disk, "state/deep/file"), "x")
	require.NoError(t, os.WriteFile(filepath.Join(disk, "config"), []byte("x"), 0o644))
	testkit.Run(t, "mount", "-o", "remount,ro", disk)
	before := surrounding(t, disk, "")
	h := mounted(t, disk)

	const readOnly = "read-only file system (mount -o remount,rw makes it writable)"
	_, err := h.Files.RemoveTree("/config")
	assert.EqualError(t, err, "remove /config: "+readOnly)
	gone, err := h.Files.RemoveTree("/state")
	assert.EqualError(t, err, "remove /state/deep/file: "+readOnly)
	assert.Zero(t, gone)
	_, err = h.Files.RemoveContents("/state")
	assert.EqualError(t, err, "remove /state/deep/file: "+readOnly)
	assert.EqualError(t, h.Files.Truncate("/config"), "truncate /config: "+readOnly)
	assert.EqualError(t, h.Files.WriteFile("/config", nil, Attributes{Mode: 0o644}), "write /config: "+readOnly)
	assert.Equal(t, before, surrounding(t, disk, ""))
}

func stat(t *testing.T, name string) unix.Stat_t {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Lstat(name, &st))
	return st
}

// Without openat2 (kernels before 5.6), names are resolved and mounts detected as
// well.
func TestRemovalWithoutOpenat2(t *testing.T) {
	i := newImage(t)
	i.bind(t, filepath.Join(i.outside, "tree-evil"), filepath.Join(i.root, "top/mnt"))
	i.untouched(t)
	i.link(t, "/top", "linked")
	p, err := i.Files.walk(split("/linked"), true)
	require.NoError(t, err)
	defer p.close()
	assert.Equal(t, "top", p.base)
	fd, err := openDir(p.dir, p.base)
	require.NoError(t, err)
	defer unix.Close(fd)
	var mounted *MountedError
	_, err = enterSame(fd, "mnt", "/top/mnt")
	require.ErrorAs(t, err, &mounted)
	assert.Equal(t, "/top/mnt", mounted.Path)
	i.put(t, "top/plain/file", "x")
	plain, err := enterSame(fd, "plain", "/top/plain")
	require.NoError(t, err)
	require.NoError(t, unix.Close(plain))
	_, err = openSame(fd, "mnt", "/top/mnt")
	require.ErrorAs(t, err, &mounted)
}
