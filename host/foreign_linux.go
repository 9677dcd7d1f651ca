package host

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// partitions are the mount points at which a local file system belongs to the
// machine, also inside a folder that is swept. They come from the CIS benchmarks,
// from the distributions' installers, and from folders of node state to which
// people attach a volume.
var partitions = []string{
	"/", "/boot", "/boot/efi", "/efi", "/etc", "/home", "/opt", "/root", "/srv", "/tmp", "/usr", "/usr/local",
	"/var", "/var/cache", "/var/crash", "/var/lib", "/var/lib/containerd", "/var/lib/containers",
	"/var/lib/docker", "/var/lib/etcd", "/var/lib/kubelet", "/var/log", "/var/log/audit", "/var/opt", "/var/spool",
	"/var/tmp",
}

// localTypes are the file systems that a machine has on its disks and in its
// memory. Every other type belongs to a network, to a program (FUSE), or is
// unknown.
var localTypes = []string{
	"bcachefs", "btrfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "iso9660", "jfs", "msdos", "nilfs2", "ntfs3",
	"overlay", "ramfs", "reiserfs", "squashfs", "tmpfs", "udf", "vfat", "xfs", "zfs",
}

// kernelTypes are the kernel's own file systems. An image contains nothing of them.
var kernelTypes = []string{
	"binder", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs",
	"fusectl", "hugetlbfs", "mqueue", "nfsd", "nsfs", "proc", "pstore", "resctrl", "rpc_pipefs", "securityfs",
	"selinuxfs", "smackfs", "sysfs", "tracefs",
}

// mountView is the mount table as a machine's files see it: by mount point, and
// judged by kind. The location of a mount is judged at each lookup.
type mountView struct {
	all  []*mountinfo.Info
	root string                   // path of the machine's root on this machine
	at   map[string]*ForeignMount // an empty Why means a local file system that is mounted whole and once
	// unclear is the number of mounts that may be foreign. Most machines have none,
	// and then no lookup is needed.
	unclear int
}

// newMountView judges the mounts on and below the directory root. The machine's
// root itself is never foreign.
func newMountView(mounts []*mountinfo.Info, root string) *mountView {
	v := &mountView{all: mounts, root: root, at: map[string]*ForeignMount{}}
	for _, m := range mounts {
		name, inside := below(root, m.Mountpoint)
		if !inside || name == "/" {
			continue
		}
		j := &ForeignMount{Mount: Mount{Path: name, Type: m.FSType, Source: m.Source}}
		// A folder that is bound onto itself, as the kubelet binds its own folder,
		// has the same content without the mount.
		j.own = slices.Contains(localTypes, m.FSType) && shows(m, name, mounts, root)
		if j.Kernel = slices.Contains(kernelTypes, m.FSType) || volatile(name); !j.Kernel && !j.own {
			j.Why = judge(m, name, mounts, root)
		}
		v.at[name] = j // of two mounts at one place the later one is visible
	}
	for name, j := range v.at {
		if !j.Kernel && !j.own && (j.Why != "" || !slices.Contains(partitions, name)) {
			v.unclear++
		}
	}
	return v
}

// below is a path as seen from the directory root, and whether the path lies there.
func below(root, name string) (string, bool) {
	rest, inside := strings.CutPrefix(name, strings.TrimSuffix(root, "/"))
	return path.Join("/", rest), inside && (rest == "" || rest[0] == '/')
}

// volatile says whether a path is created again at each boot.
func volatile(name string) bool {
	return slices.ContainsFunc([]string{"/dev", "/proc", "/run", "/sys"}, func(dir string) bool {
		return within(name, dir)
	})
}

// within says whether a path is the folder dir or lies below it.
func within(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}

// judge names the reason why a mount is foreign at any place; empty means not
// foreign. name is the mount point as the machine names it.
func judge(m *mountinfo.Info, name string, mounts []*mountinfo.Info, root string) string {
	switch {
	case m.FSType == "autofs" && (within(name, "/boot") || name == "/efi"): // systemd-gpt-auto-generator(8)
		return ""
	case !slices.Contains(localTypes, m.FSType):
		return fmt.Sprintf("%s of %s", m.FSType, m.Source)
	case (name == "/tmp" && shows(m, "/var/tmp", mounts, root)), (name == "/var/tmp" && shows(m, "/tmp", mounts, root)):
		return "" // older CIS benchmarks mount /var/tmp like this
	case m.Root != "/" && m.Root != subvolume(m):
		return fmt.Sprintf("a bind mount of %s on %s", m.Root, m.Source)
	}
	for _, other := range mounts {
		same := other.Major == m.Major && other.Minor == m.Minor && other.Root == m.Root
		if same && other.Mountpoint != m.Mountpoint {
			return fmt.Sprintf("%s of %s, mounted at %s too", m.FSType, m.Source, other.Mountpoint)
		}
	}
	return ""
}

// shows says whether a mount shows the folder that lies at name without the mount:
// the folder is bound onto itself.
func shows(m *mountinfo.Info, name string, mounts []*mountinfo.Info, root string) bool {
	name = path.Join(root, name)
	under := holder(mounts, name, m)
	if under == nil || under.Major != m.Major || under.Minor != m.Minor {
		return false
	}
	rest, _ := below(under.Mountpoint, name)
	return path.Join(under.Root, rest) == m.Root
}

// holder is the mount that a path lies on, with one of the mounts left out. It is
// nil when the table has no such mount.
func holder(mounts []*mountinfo.Info, name string, without *mountinfo.Info) *mountinfo.Info {
	var under *mountinfo.Info
	for _, m := range mounts {
		if m != without && within(name, m.Mountpoint) && (under == nil || len(m.Mountpoint) >= len(under.Mountpoint)) {
			under = m
		}
	}
	return under
}

// subvolume is the btrfs subvolume that is mounted. Its name may contain commas;
// the option is the last one.
func subvolume(m *mountinfo.Info) string {
	_, name, found := strings.Cut(m.VFSOptions, "subvol=")
	if m.FSType != "btrfs" || !found {
		return "/"
	}
	return show.Unescape(name)
}

// on is the foreign mount at a path. A mount is foreign by its kind, or because it
// lies inside the folder named and is no partition.
func (v *mountView) on(name, named string) *ForeignMount {
	m := v.at[name]
	switch {
	case m == nil || m.own:
		return nil
	case m.Kernel || m.Why != "":
		return m
	case named != "" && name != named && within(name, named) && !slices.Contains(partitions, name):
		inside := *m
		inside.Why = fmt.Sprintf("%s of %s inside %s", m.Type, m.Source, named)
		return &inside
	}
	return nil
}

// Foreign returns the foreign mount on which name lies, or nil. It is the one place
// that decides which mounts are foreign:
//
//   - A file system of a network or a program (FUSE), a bind mount, and a file
//     system that is also mounted elsewhere are always foreign.
//   - A local file system belongs to the machine in two places: at a mount point
//     that hardened and usual installations have, and on or above the folder named,
//     because a person named that folder as a place to work in. Further inside it
//     is foreign.
//
// With follow, a link in the last place is followed. Foreign reads nothing on a
// foreign mount, so a server that does not answer blocks nothing.
func (f *Files) Foreign(name, named string, follow bool) (*ForeignMount, error) {
	v, err := f.mounts.view(f.root)
	if err != nil || v.unclear == 0 {
		return nil, err
	}
	return f.foreign(v, name, named, follow)
}

func (f *Files) foreign(v *mountView, name, named string, follow bool) (*ForeignMount, error) {
	named, m, err := f.route(v, named, "", true)
	if err == nil && m == nil {
		_, m, err = f.route(v, name, named, follow)
	}
	return m, err
}

// ForeignBelow lists the foreign mounts below the folder name. They prevent its
// removal.
func (f *Files) ForeignBelow(name string) ([]*ForeignMount, error) {
	v, err := f.mounts.view(f.root)
	if err != nil || v.unclear == 0 {
		return nil, err
	}
	real, _, err := f.route(v, name, "", true)
	if err != nil {
		return nil, err
	}
	var mounts []*ForeignMount
	for _, at := range slices.Sorted(maps.Keys(v.at)) {
		if m := v.on(at, real); m != nil && at != real && within(at, real) {
			mounts = append(mounts, m)
		}
	}
	return mounts, nil
}

// route follows a name from folder to folder, up to the first foreign mount. From a
// missing part on, and in a circle of links, the rest of the name is kept.
func (f *Files) route(v *mountView, name, named string, follow bool) (string, *ForeignMount, error) {
	_, at, m, err := f.trail(v, name, named, follow)
	if err != unix.EMFILE && err != unix.ENFILE { // the later open reports other causes
		err = nil
	}
	return at, m, err
}

// FileSystem identifies the file system that the directory name is on. All mounts
// of one file system have the same identity, also those of btrfs subvolumes.
func (f *Files) FileSystem(name string) (string, error) {
	v, err := f.mounts.view(f.root)
	if err != nil {
		return "", err
	}
	at, _, err := f.route(v, name, "", true)
	if err != nil {
		return "", err
	}
	if m := holder(v.all, path.Join(v.root, at), nil); m != nil {
		return fmt.Sprintf("%d:%d", m.Major, m.Minor), nil
	}
	st, err := f.Stat(name) // in a chroot the table lacks the mount
	if err != nil {
		return "", err
	}
	dev := st.(*info).st.Dev
	return fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev)), nil
}

// Real is the path of name without links, as the machine names it. A part that is
// missing, or lies on a foreign mount, keeps its name.
func (f *Files) Real(name string) (string, error) {
	v, err := f.mounts.view(f.root)
	if err != nil {
		return "", err
	}
	at, m, err := f.route(v, name, "", true)
	if m != nil {
		at = path.Join(at, strings.TrimPrefix(path.Clean("/"+name), at))
	}
	return at, err
}
