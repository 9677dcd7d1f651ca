package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// RemoveTree removes the entry name and everything below it. It removes a link and
// never follows it. It works by directory descriptors and never crosses a mount:
// when something is mounted below name, it removes nothing and returns a
// *MountedError. A missing name is no error.
//
// An entry that cannot be removed does not stop the removal of the others. The
// error joins all such failures (the first twenty by name), and the Removal counts
// the removed entries.
func (f *Files) RemoveTree(name string) (Removal, error) { return f.remove(name, false) }

// RemoveContents removes everything in the directory name. The directory itself
// keeps its mode, owner and labels. name may be a link to a directory or a mount
// point; both stay. Otherwise it works like RemoveTree.
func (f *Files) RemoveContents(name string) (Removal, error) { return f.remove(name, true) }

// RemoveAll implements afero.Fs by RemoveTree.
func (f *Files) RemoveAll(name string) error {
	_, err := f.RemoveTree(name)
	return err
}

func (f *Files) remove(name string, contentsOnly bool) (Removal, error) {
	var gone Removal
	var failures error // these errors already contain their paths
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
				gone = Removal{Entries: 1, Bytes: st.length()}
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

// whereabouts returns the folder of a place as the machine names it, and the place
// itself as the machine that this process runs on names it.
func (f *Files) whereabouts(p place) (folder, real string, err error) {
	root, err := realPathOf(f.root)
	if err != nil {
		return "", "", err
	}
	parent, err := realPathOf(p.dir)
	return path.Join("/", strings.TrimPrefix(parent, root)), path.Join(parent, p.base), err
}

// refuseDetour refuses a removal when links lead to the root, up to a folder that
// contains the link, or into the system's folders. Otherwise a link at
// /var/lib/kubelet/pods to /, /var or /etc would remove files that no rule names.
// led is the folder, as the machine names it, in which base was found.
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
		return fmt.Errorf("refusing to go through a link that leads up to %s, where it lies itself; "+
			"replace the link by a folder", led)
	case led != named && isSystems(led, named):
		return fmt.Errorf("refusing to go through a link that leads to %s, which is the system's; "+
			"replace the link by a folder", led)
	}
	return nil
}

// isSystems says whether a folder to which links led is one of the system's, which
// never hold state. Links within /etc are usual.
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

// refuseMounts refuses before the first file is removed when something is mounted
// below the directory real or, unless only the contents go, on the directory.
func (f *Files) refuseMounts(real, name string, contentsOnly bool) error {
	mounts, err := f.mountsBelow(real, name, !contentsOnly)
	if err == nil && len(mounts) > 0 {
		err = &MountedError{Path: mounts[0].Path}
	}
	return err
}

// explain adds the remedy to a failure that root can resolve.
func explain(err error) error {
	switch {
	case err == unix.EPERM && os.Geteuid() == 0:
		return fmt.Errorf("%w (immutable or append-only? see lsattr; chattr -ia clears it)", err)
	case err == unix.EROFS:
		return fmt.Errorf("%w (mount -o remount,rw makes it writable)", err)
	}
	return err
}

func openDir(dir int, name string) (int, error) {
	return unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// Measure counts what RemoveTree(name) would remove; with contents, what
// RemoveContents(name) would remove. Like Walk, it follows no link below name and
// enters no foreign mount. A missing name counts as nothing.
func (f *Files) Measure(name string, contents bool) (Removal, error) {
	st, err := f.stat("measure", name, contents)
	if errors.Is(err, fs.ErrNotExist) {
		return Removal{}, nil
	}
	if err != nil {
		return Removal{}, err
	}
	if !st.IsDir() && !contents {
		return Removal{Entries: 1, Bytes: st.(*info).length()}, nil
	}
	var m Removal
	_, err = f.Walk(context.Background(), name, name, func(e Entry, err error) error {
		if err == nil {
			m.Add(Removal{Entries: 1, Bytes: e.FileInfo.(*info).length()})
		}
		return err
	})
	if contents && m.Entries > 0 { // the folder itself stays
		m.Entries--
	}
	return m, err
}
