//go:build linux

package host

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// visited walks and returns the paths and errors.
func (i image) visited(t *testing.T, top, named string) (paths []string, foreign []*ForeignMount) {
	t.Helper()
	foreign, err := i.Files.Walk(t.Context(), top, named, func(e Entry, err error) error {
		if err != nil {
			paths = append(paths, err.Error())
			return nil
		}
		paths = append(paths, e.Path)
		if strings.HasSuffix(e.Path, "/skipped") {
			return fs.SkipDir
		}
		return nil
	})
	require.NoError(t, err)
	return paths, foreign
}

func TestWalkVisitsAllPaths(t *testing.T) {
	i := newImage(t)
	for _, name := range []string{"a/b/file", "a/b.x", "a/skipped/file", "a/new\nline/\xff"} {
		i.put(t, name, "x")
	}
	i.link(t, "/a/b", "a/link")
	i.link(t, "/a", "to")
	i.link(t, filepath.Join(i.outside, "tree-evil"), "out")
	i.link(t, "around", "around")
	i.link(t, "a/b.x", "to-file")
	below := []string{"", "/b", "/b/file", "/b.x", "/link", "/new\nline", "/new\nline/\xff", "/skipped"}
	for top, want := range map[string][]string{"/a": below, "/to": below, "/a/../a/": below, "/missing": nil, "/a/b.x/y": nil, "/around": nil, "/out": nil} {
		var paths []string
		for _, b := range want {
			paths = append(paths, filepath.Clean(top)+b)
		}
		got, foreign := i.visited(t, top, top)
		assert.Equal(t, paths, got, top)
		assert.Empty(t, foreign)
	}
	all, _ := i.visited(t, "/", "/")
	assert.Contains(t, all, "/a/b/file")
	assert.Equal(t, "/", all[0])
}

// Walk names a foreign mount and does not visit it, also when a file is the mount
// point.
func TestWalkDoesNotEnterForeignMounts(t *testing.T) {
	i := newImage(t)
	i.put(t, "log/file", "x")
	i.put(t, "log/bound", "x")
	i.bind(t, filepath.Join(i.outside, "tree-evil"), filepath.Join(i.root, "log/a/m"))
	require.NoError(t, unix.Mount(filepath.Join(i.outside, "tree-evil/secret"), filepath.Join(i.root, "log/bound"), "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(filepath.Join(i.root, "log/bound"), unix.MNT_DETACH) })
	i.link(t, "/log", "linked")
	for _, top := range []string{"/log", "/linked"} {
		paths, foreign := i.visited(t, top, top)
		assert.Equal(t, []string{top, top + "/a", top + "/file"}, paths)
		require.Len(t, foreign, 2)
		assert.Equal(t, "/log/a/m", foreign[0].Path)
		assert.Regexp(t, "^a bind mount of .*/tree-evil on ", foreign[0].Why)
		assert.Equal(t, "/log/bound", foreign[1].Path)
	}
	_, foreign := i.visited(t, "/log/a/m", "/log/a/m")
	require.Len(t, foreign, 1)
	m, err := i.Files.Foreign("/linked/a/m/x/y", "/linked", true)
	require.NoError(t, err)
	require.NotNil(t, m)
	assert.Equal(t, "/log/a/m", m.Path)
	m, err = i.Files.Foreign("/linked/a/beside", "/linked", true)
	require.NoError(t, err)
	assert.Nil(t, m)
	below, err := i.Files.ForeignBelow("/linked")
	require.NoError(t, err)
	assert.Len(t, below, 2)
}

// A foreign mount is found by every name that leads to it or below it, and by no other.
func TestNamesThatLeadToAForeignMount(t *testing.T) {
	i := newImage(t)
	i.put(t, "srv/file", "x")
	i.bind(t, filepath.Join(i.outside, "tree-evil"), filepath.Join(i.root, "srv/data"))
	for name, target := range map[string]string{
		"absolute": "/srv", "relative": "srv", "high": "../../srv/./", "etc/up": "../srv/data", "srv/inside": "data/more",
		"loop": "loop", "dangling": "/missing/../srv/data", "home/deep": "/etc/up",
	} {
		i.link(t, target, name)
	}
	for name, want := range map[string]bool{
		"/srv/data": true, "/srv/data/x/y": true, "/absolute/data": true, "/relative/data/x": true, "/high/data": true,
		"/etc/../srv/data": true, "/etc/up": false, "/etc/up/": false, "/etc/up/x": true, "/etc/up/../file": true,
		"/srv/inside": false, "/srv/inside/x": true, "/dangling/x": true, "/home/deep/x": true,
		"/missing/../srv/data": true, "/missing/srv/data": false, "/missing/a/../../srv/data": true,
		"/srv/file/../data": true, "/srv/file/data": false, "/../../srv/data": true,
		"/srv": false, "/srv/database": false, "/loop/srv/data": false, "/": false,
	} {
		for _, follow := range []bool{false, true} {
			m, err := i.Files.Foreign(name, "", follow)
			require.NoError(t, err, name)
			if want || follow && slices.Contains([]string{"/etc/up", "/etc/up/", "/srv/inside"}, name) {
				if assert.NotNil(t, m, "%s, follow %t", name, follow) {
					assert.Equal(t, "/srv/data", m.Path)
				}
			} else {
				assert.Nil(t, m, "%s, follow %t", name, follow)
			}
		}
	}
}

// Walk does not enter a file system that is mounted during the walk.
func TestWalkDoesNotEnterANewMount(t *testing.T) {
	i := newImage(t)
	i.put(t, "top/a", "x")
	i.put(t, "top/b/c", "x")
	var got []string
	_, err := i.Files.Walk(t.Context(), "/top", "/top", func(e Entry, err error) error {
		if err != nil {
			got = append(got, err.Error())
			return nil
		}
		got = append(got, e.Path)
		if e.Path == "/top/a" {
			i.bind(t, filepath.Join(i.outside, "tree-evil"), filepath.Join(i.root, "top/b"))
		}
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, []string{"/top", "/top/a", "/top/b",
		"open /top/b: /top/b: something is mounted there; unmount it first (files below a mount belong to another file system)"}, got)
}

// Walk visits a tree of 4000 nested folders with few open files, and ends at once
// when its context ends.
func TestWalkOfADeepTree(t *testing.T) {
	i := newImage(t)
	const depth = 4000
	fd, err := unix.Open(i.root, unix.O_PATH|unix.O_DIRECTORY, 0)
	require.NoError(t, err)
	for range depth {
		require.NoError(t, unix.Mkdirat(fd, "deep", 0o755))
		below, err := unix.Openat(fd, "deep", unix.O_PATH|unix.O_DIRECTORY, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Close(fd))
		fd = below
	}
	bottom, err := unix.Openat(fd, "bottom", unix.O_CREAT|unix.O_WRONLY, 0o600)
	require.NoError(t, err)
	_, err = unix.Write(bottom, []byte("found"))
	require.NoError(t, errors.Join(err, unix.Close(bottom), unix.Close(fd)))
	limitFiles(t, 300)
	folders, text := 0, ""
	_, err = i.Files.Walk(t.Context(), "/deep", "/deep", func(e Entry, err error) error {
		if err != nil || e.IsDir() {
			folders++
			return err
		}
		in, err := e.Open()
		if err != nil {
			return err
		}
		defer in.Close()
		got, err := io.ReadAll(in)
		text = string(got)
		return err
	})
	require.NoError(t, err)
	assert.Equal(t, depth, folders)
	assert.Equal(t, "found", text)

	gone := errors.New("the caller is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	folders = 0
	_, err = i.Files.Walk(ctx, "/deep", "/deep", func(e Entry, err error) error {
		if folders++; folders == 2000 {
			cancel(gone)
		}
		return err
	})
	assert.Equal(t, gone, err)
	assert.Equal(t, 2000, folders)
	_, err = i.Files.RemoveTree("/deep")
	require.NoError(t, err)
}

// When a folder is moved during the walk, Walk does not end up in another folder.
func TestWalkOfAMovedFolderIsAnError(t *testing.T) {
	i := newImage(t)
	i.put(t, "top"+strings.Repeat("/d", deepest+10)+"/file", "x")
	inside := filepath.Join(i.root, "top"+strings.Repeat("/d", deepest+5))
	_, err := i.Files.Walk(t.Context(), "/top", "/top", func(e Entry, err error) error {
		if err == nil && e.Mode().IsRegular() {
			err = os.Rename(inside, filepath.Join(i.outside, "tree-evil", "moved"))
		}
		return err
	})
	assert.ErrorContains(t, err, ": another process moves folders inside this folder")
}

// FuzzMounts reads any mount table: no panic, the machine's root is never foreign,
// and every foreign mount has a reason.
func FuzzMounts(f *testing.F) {
	f.Add("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n23 22 8:2 / /var rw - ext4 /dev/sda2 rw\n24 22 8:1 /x /home rw - ext4 /dev/sda1 rw", "/", "/home/u", "/home")
	f.Add("22 1 0:20 /@ / rw - btrfs /dev/sda rw,subvol=/@\n23 22 0:20 /@a,\\040b /var rw - btrfs /dev/sda rw,subvolid=1,subvol=/@a,\\040b", "/", "/var/x", "/var")
	f.Add("22 1 0:20 / /mnt rw - nfs4 server:/x rw\n23 22 0:21 / /mnt/../x rw - autofs a rw\n\\777", "/mnt", "/boot", "")
	f.Fuzz(func(t *testing.T, table, root, name, named string) {
		mounts, err := mountinfo.GetMountsFromReader(strings.NewReader(table), nil)
		if err != nil {
			return
		}
		v := newMountView(mounts, filepath.Join("/", root))
		if v.on("/", "/") != nil {
			t.Fatal("the root is foreign")
		}
		if m := v.on(filepath.Join("/", name), filepath.Join("/", named)); m != nil && m.Why == "" && !m.Kernel {
			t.Fatalf("%+v", m)
		}
	})
}

// The mount table's text replaces kinds of mounts that no test machine has.
func TestKindsOfForeignMounts(t *testing.T) {
	const root = "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n21 20 0:5 / /proc rw - proc proc rw\n"
	for name, c := range map[string]struct{ table, at, why string }{
		"LVM":                  {"30 20 253:1 / /var rw - xfs /dev/mapper/vg-var rw", "/var", ""},
		"nfs at homes":         {"30 20 0:40 / /home rw - nfs4 server:/home rw", "/home", "nfs4 of server:/home"},
		"cifs":                 {"30 20 0:40 / /srv rw - cifs //server/share rw", "/srv", "cifs of //server/share"},
		"ceph":                 {"30 20 0:40 / /var/log rw - ceph 10.0.0.1:/ rw", "/var/log", "ceph of 10.0.0.1:/"},
		"9p":                   {"30 20 0:40 / /opt rw - 9p share rw", "/opt", "9p of share"},
		"virtiofs":             {"30 20 0:40 / /opt rw - virtiofs share rw", "/opt", "virtiofs of share"},
		"fuse":                 {"30 20 0:40 / /home rw - fuse.sshfs u@h: rw", "/home", "fuse.sshfs of u@h:"},
		"fuseblk":              {"30 20 8:9 / /srv rw - fuseblk /dev/sdb1 rw", "/srv", "fuseblk of /dev/sdb1"},
		"unknown":              {"30 20 0:40 / /var rw - newfs x rw", "/var", "newfs of x"},
		"overlay on etc":       {"30 20 0:40 / /etc rw - overlay overlay rw,lowerdir=/a", "/etc", ""},
		"memory at tmp":        {"30 20 0:40 / /tmp rw - tmpfs tmpfs rw", "/tmp", ""},
		"automounter of homes": {"30 20 0:40 / /home rw - autofs auto.home rw", "/home", "autofs of auto.home"},
		"automounted boot":     {"30 20 0:40 / /boot/efi rw - autofs systemd-1 rw\n31 30 8:3 / /boot/efi rw - vfat /dev/sda3 rw", "/boot/efi", ""},
		"not yet mounted boot": {"30 20 0:40 / /efi rw - autofs systemd-1 rw", "/efi", ""},
		"bound onto itself":    {"30 20 8:1 /var/lib/kubelet /var/lib/kubelet rw - ext4 /dev/sda1 rw", "/var/lib/kubelet", ""},
		"bound elsewhere":      {"30 20 8:1 /data/kubelet /var/lib/kubelet rw - ext4 /dev/sda1 rw", "/var/lib/kubelet", "a bind mount of /data/kubelet on /dev/sda1"},
		"var/tmp is tmp":       {"30 20 8:1 /tmp /var/tmp rw - ext4 /dev/sda1 rw", "/var/tmp", ""},
		"both are a partition": {"30 20 8:5 / /tmp rw - ext4 /dev/sda5 rw\n31 20 8:5 / /var/tmp rw - ext4 /dev/sda5 rw", "/tmp", ""},
		"mounted twice":        {"30 20 8:5 / /data rw - ext4 /dev/sda5 rw\n31 20 8:5 / /home rw - ext4 /dev/sda5 rw", "/home", "ext4 of /dev/sda5, mounted at /data too"},
		"btrfs subvolume":      {"30 20 0:40 /@home,1 /home rw - btrfs /dev/sdb rw,subvolid=5,subvol=/@home,1", "/home", ""},
		"btrfs folder": {
			"30 20 0:40 /@home/data /srv rw - btrfs /dev/sdb rw,subvol=/@home", "/srv",
			"a bind mount of /@home/data on /dev/sdb",
		},
		"stacked on itself": {
			"30 20 8:5 / /srv rw - ext4 /dev/sdb rw\n31 20 8:6 / /srv rw - ext4 /dev/sdc rw\n" +
				"32 31 8:6 /x /srv/x rw - ext4 /dev/sdc rw", "/srv/x", "",
		},
		"stacked mounts": {"30 20 0:40 / /var rw - nfs4 s:/ rw\n31 30 8:5 / /var rw - ext4 /dev/sda5 rw", "/var", ""},
	} {
		t.Run(name, func(t *testing.T) {
			mounts, err := mountinfo.GetMountsFromReader(strings.NewReader(root+c.table), nil)
			require.NoError(t, err)
			why := ""
			if m := newMountView(mounts, "/").on(c.at, c.at); m != nil {
				why = m.Why
			}
			assert.Equal(t, c.why, why)
		})
	}
	ordinary := "30 20 0:40 / /run rw - tmpfs tmpfs rw\n31 30 0:41 / /run/user/0 rw - tmpfs tmpfs rw\n" +
		"32 20 8:2 / /home rw - xfs /dev/sda2 rw"
	mounts, err := mountinfo.GetMountsFromReader(strings.NewReader(root+ordinary), nil)
	require.NoError(t, err)
	v := newMountView(mounts, "/")
	assert.Nil(t, v.on("/run/user/0/x", ""), "that is no mount point")
	assert.Zero(t, v.unclear, "on an ordinary machine every mount must be clear")
}

// FuzzResolversAgree creates links and resolves a name by the kernel and by walk.
// Both must find the same path.
func FuzzResolversAgree(f *testing.F) {
	f.Add("/a/b/c", "d/..", "/d", true)
	f.Add("a//b/./c", "/", "a", false)
	f.Add("/d/d/a", "/../../d", "d/d/../../a", true)
	f.Add("/a/b/c", "d", "/missing", true)
	f.Add("a/x", "../../../../../../..", "b", true)
	f.Fuzz(func(t *testing.T, name, first, second string, follow bool) {
		i := newImage(t)
		require.NoError(t, os.MkdirAll(filepath.Join(i.root, "d/d"), 0o755))
		_ = os.Symlink(first, filepath.Join(i.root, "a"))
		_ = os.Symlink(second, filepath.Join(i.root, "d/b"))
		quick, ok, missing := i.Files.resolveByKernel(split(name), follow)
		if missing != nil {
			_, err := i.Files.walk(split(name), follow)
			require.ErrorIs(t, err, missing, name)
		}
		if !ok {
			return
		}
		defer quick.close()
		slow, err := i.Files.walk(split(name), follow)
		require.NoError(t, err, "only the kernel resolves %q", name)
		defer slow.close()
		want, err := realPathOf(slow.dir)
		require.NoError(t, err)
		got, err := realPathOf(quick.dir)
		require.NoError(t, err)
		require.Equal(t, filepath.Join(want, slow.base), filepath.Join(got, quick.base))
	})
}
