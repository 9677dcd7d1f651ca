package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// RemoveTree removes the entry name and all that is below it. A link is
// removed, never followed. It works by directory descriptors and never crosses
// a mount: when something is mounted below name it returns a *MountedError and
// has removed nothing. A missing name is no error. What cannot be removed does
// not keep the rest from going; the error joins all such failures (the first
// twenty by name), and the Removal counts what is gone.
func (f *Files) RemoveTree(name string) (Removal, error) { return f.remove(name, false) }

// RemoveContents removes everything in the directory name and keeps the
// directory itself with its mode, owner and labels; name may be a link to a
// directory or a mount point, both keep their place. Otherwise it works as
// RemoveTree does.
func (f *Files) RemoveContents(name string) (Removal, error) { return f.remove(name, true) }

// RemoveAll implements afero.Fs by RemoveTree.
func (f *Files) RemoveAll(name string) error {
	_, err := f.RemoveTree(name)
	return err
}

func (f *Files) remove(name string, contentsOnly bool) (Removal, error) {
	var gone Removal
	var failures error // they name their paths themselves
	err := f.at("remove", name, contentsOnly, func(p place) error {
		if p.base == "." && !contentsOnly { // the root itself, or a name that ends in ".."
			return errors.New("refusing to remove the machine's root or a folder that is named by \"..\"")
		}
		st, err := statat(p.dir, p.base)
		if err != nil {
			return err
		}
		if contentsOnly && !st.IsDir() {
			return unix.ENOTDIR
		}
		folder, real, err := f.whereabouts(p)
		if err == nil {
			err = refuseDetour(folder, p.base, name, contentsOnly)
		}
		if err != nil {
			return err
		}
		if !st.IsDir() {
			err := explain(unix.Unlinkat(p.dir, p.base, 0))
			if err == nil {
				gone = Removal{Entries: 1, Bytes: st.space()}
			}
			return err
		}
		if err := f.refuseMounts(real, name, contentsOnly); err != nil {
			return err
		}
		gone, failures = sweep(p, name, contentsOnly)
		return nil
	})
	err = errors.Join(err, failures)
	if errors.Is(err, fs.ErrNotExist) && gone.Entries == 0 {
		err = nil
	}
	return gone, err
}

// whereabouts tells the folder that a place is in as the machine names it, and
// the place itself as the machine this process runs on does.
func (f *Files) whereabouts(p place) (folder, real string, err error) {
	root, err := realPathOf(f.root)
	if err != nil {
		return "", "", err
	}
	parent, err := realPathOf(p.dir)
	return path.Join("/", strings.TrimPrefix(parent, root)), path.Join(parent, p.base), err
}

// refuseDetour refuses to take anything away where links lead to the root, up
// to another folder that the link itself lies in, or into the system's own
// folders: a link at /var/lib/kubelet/pods to /, to /var or to /etc would else
// take away what nobody named. led is the folder, as the machine names it, in
// which base was found.
func refuseDetour(led, base, name string, contentsOnly bool) error {
	named := path.Clean("/" + name)
	if contentsOnly {
		led = path.Join(led, base)
	} else {
		named = path.Dir(named)
	}
	switch {
	case led == "/" && contentsOnly:
		return errors.New("refusing to empty the machine's root; is it a link? replace it by a folder")
	case led != named && strings.HasPrefix(named, strings.TrimSuffix(led, "/")+"/"):
		return fmt.Errorf("refusing to go through a link that leads up to %s, where it lies itself; replace the link by a folder", led)
	case led != named && isSystems(led, named):
		return fmt.Errorf("refusing to go through a link that leads to %s, which is the system's; replace the link by a folder", led)
	}
	return nil
}

// isSystems says whether a folder that links led to is one of the system's,
// whose contents can be nobody's state. Links within /etc are usual.
func isSystems(led, named string) bool {
	parent, top := path.Dir(led), "/"+strings.SplitN(strings.TrimPrefix(led, "/"), "/", 2)[0]
	switch top {
	case "/boot", "/dev", "/proc", "/sys":
		return true
	case "/etc":
		return led == "/etc" || !strings.HasPrefix(named+"/", "/etc/")
	case "/usr":
		return led == "/usr" || parent == "/usr" && led != "/usr"+named // /lib is a link to /usr/lib
	}
	return slices.Contains([]string{"/", "/home", "/opt", "/run", "/srv", "/var", "/var/lib"}, led)
}

// refuseMounts looks at the mount table before the first file goes. It refuses
// when something is mounted below the directory that lies at real or, unless
// only its contents are to go, on it.
func (f *Files) refuseMounts(real, name string, contentsOnly bool) error {
	if none, err := f.noMountNames(real); err != nil || none {
		return err
	}
	mounts, err := mountsBelow(real, name, !contentsOnly)
	if err == nil && len(mounts) > 0 {
		err = &MountedError{Path: mounts[0].Path}
	}
	return err
}

// explain adds what to do about a failure, where root can do something.
func explain(err error) error {
	switch {
	case err == unix.EPERM && os.Geteuid() == 0:
		return remedyError{err, "immutable or append-only? see lsattr; chattr -ia clears it"}
	case err == unix.EROFS:
		return remedyError{err, "mount -o remount,rw makes it writable"}
	}
	return err
}

type remedyError struct {
	error
	remedy string
}

func (e remedyError) Error() string { return e.error.Error() + " (" + e.remedy + ")" }

func (e remedyError) Unwrap() error { return e.error }

func openDir(dir int, name string) (int, error) {
	return unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// Measure counts what RemoveTree(name) would take away (with contents, what
// RemoveContents(name) would), without following links or crossing mounts. A
// missing name counts nothing.
func (f *Files) Measure(name string, contents bool) (Removal, error) {
	var m Removal
	err := f.at("measure", name, contents, func(p place) error {
		return measure(p.dir, p.base, 0, &m)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return Removal{}, nil
	}
	if st, err := f.Stat(name); err == nil && contents && m.Entries > 0 { // the folder itself stays
		m.Entries--
		m.Bytes -= st.(*info).space()
	}
	return m, err
}

func measure(dir int, base string, mount uint64, m *Removal) error {
	st, err := statat(dir, base)
	if err != nil {
		return err
	}
	m.Entries++
	m.Bytes += st.space()
	if !st.IsDir() {
		return nil
	}
	fd, err := openDir(dir, base)
	if err != nil {
		return err
	}
	d := os.NewFile(uintptr(fd), base)
	defer d.Close()
	own, err := mountID(fd)
	if err != nil {
		return err
	}
	if mount != 0 && own != mount {
		return nil
	}
	for {
		names, err := d.Readdirnames(1024)
		for _, n := range names {
			if err := measure(fd, n, own, m); err != nil && err != unix.ENOENT {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
