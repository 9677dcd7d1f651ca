// Package base makes the system that tests image: a Debian root file system
// that resembles Debian's own image for EC2. It is built with mmdebstrap from
// the mirror of the host's apt, and kept in the user's cache folder.
//
// The system contains systemd, networkd with netplan and resolved, sshd, sudo,
// cloud-init (its default user is admin), timesyncd, the cloud kernel with its
// initrd, and GRUB's images in /boot. It has no machine id, host keys, host
// name, fstab entries or package lists. Its apt sources name [aptmirror.Host]
// and nothing else.
//
// A base system keeps the package versions of the day of its build. Delete its
// folder in the cache to build it again; the packages then come from the apt
// cache beside it.
package base

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine/aptmirror"
)

// Packages returns the Debian packages that Prepare needs on the host.
func Packages() []string {
	return []string{"mmdebstrap", "debian-archive-keyring", "apt", "ca-certificates"}
}

// userCache is read before tests change the environment: a base system in a test's own
// cache folder would be removed with it, below the programs that run in it.
var userCache, errUserCache = os.UserCacheDir()

// Cache returns the harness's folder in the user's cache folder
// (~/.cache/eksnode). Its contents can be deleted whenever no harness is
// running.
func Cache() (string, error) {
	if errUserCache != nil {
		return "", fmt.Errorf("finding the cache folder (set HOME): %w", errUserCache)
	}
	return filepath.Join(userCache, "eksnode"), nil
}

// Mirror returns a mirror of the archives that the host's apt has. Builds of base systems and
// machines share its cache.
func Mirror(ctx context.Context) (*aptmirror.Mirror, error) {
	cache, err := Cache()
	if err != nil {
		return nil, err
	}
	upstream, err := aptmirror.HostUpstream(ctx)
	if err != nil {
		return nil, err
	}
	return aptmirror.New(filepath.Join(cache, "apt"), upstream)
}

// Debian describes a base system.
type Debian struct {
	// Suite is the code name of the release; "trixie" when empty.
	Suite string
}

// Prepare returns the folder of the base system's tree. It builds the tree if
// the cache does not have this recipe (about a minute), and installs the
// packages that it needs on the host. Two processes never build the same base
// at once: the second waits and uses the first's tree. The tree is shared:
// never write into it.
func (d Debian) Prepare(ctx context.Context, log io.Writer) (string, error) {
	return newRecipe(cmp.Or(d.Suite, "trixie")).prepare(ctx, log)
}

// prepare builds a recipe's tree unless the cache has it.
func (r recipe) prepare(ctx context.Context, log io.Writer) (string, error) {
	key, err := r.key()
	if err != nil {
		return "", err
	}
	folder, err := Cached(ctx, key, log, func(folder string) error { return r.build(ctx, folder, log) })
	return filepath.Join(folder, "root"), err
}

// Cached returns the folder of that name among the base systems in the cache. When
// there is none, build makes its content in a temporary folder.
func Cached(ctx context.Context, name string, log io.Writer, build func(folder string) error) (string, error) {
	cache, err := Cache()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, "base", name)
	err = Once(ctx, folder, log, func(temporary string) error {
		if os.Geteuid() != 0 {
			return errors.New("building the base system needs root (device nodes, owners): run the tests as root")
		}
		start := time.Now()
		fmt.Fprintf(log, "building the base system %s in %s (about a minute, once)\n", name, folder)
		if err := build(temporary); err != nil {
			return fmt.Errorf("building the base system: %w", err)
		}
		fmt.Fprintf(log, "built the base system in %s\n", time.Since(start).Round(time.Second))
		return nil
	})
	return folder, err
}

// Once fills a folder, unless the folder exists. It fills a temporary folder and renames
// it, so that the folder exists completely or not at all. If several processes need the
// same folder, one fills it. The others wait, and write to log that they do.
func Once(ctx context.Context, folder string, log io.Writer, fill func(folder string) error) error {
	if Exists(folder) {
		return nil
	}
	unlock, err := lock(ctx, folder+".lock", log)
	if err != nil {
		return err
	}
	defer unlock()
	if Exists(folder) { // another process filled the folder
		return nil
	}
	temporary := folder + ".part"
	// No other process fills the folder: a process that was killed left this.
	if err := os.RemoveAll(temporary); err != nil {
		return fmt.Errorf("removing an interrupted folder: %w", err)
	}
	if err := os.MkdirAll(temporary, 0o755); err != nil {
		return fmt.Errorf("making a temporary folder: %w", err)
	}
	if err := fill(temporary); err != nil {
		return errors.Join(err, os.RemoveAll(temporary))
	}
	if err := os.Rename(temporary, folder); err != nil {
		return fmt.Errorf("putting %s into place: %w", folder, err)
	}
	return nil
}

// Exists reports whether a path exists.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// build makes the tree in the subfolder root of a folder.
func (r recipe) build(ctx context.Context, folder string, log io.Writer) error {
	if err := Install(ctx, log, Packages()...); err != nil {
		return err
	}
	root := filepath.Join(folder, "root")
	if err := r.bootstrap(ctx, root); err != nil {
		return err
	}
	if err := r.layDown(root); err != nil {
		return err
	}
	if len(r.Loader) > 0 {
		return r.makeLoader(ctx, root)
	}
	return nil
}

// bootstrap runs mmdebstrap against the mirror, served on a loopback port.
func (r recipe) bootstrap(ctx context.Context, root string) error {
	mirror, err := Mirror(ctx)
	if err != nil {
		return err
	}
	defer mirror.Close()
	server := httptest.NewServer(mirror)
	defer server.Close()
	args := []string{
		"--mode=root", "--variant=" + cmp.Or(r.Variant, "important"), "--architectures=amd64", "--format=directory",
		"--include=" + strings.Join(r.Packages, ","),
		// The mirror may serve old package lists; see sources.
		"--aptopt=Acquire::Check-Valid-Until false", "--aptopt=Acquire::Check-Date false",
		"--dpkgopt=force-unsafe-io",
	}
	for _, glob := range r.Excluded {
		args = append(args, "--dpkgopt=path-exclude="+glob)
	}
	args = append(args, "--dpkgopt=path-include=/usr/share/doc/*/copyright")
	if len(r.Purged) > 0 {
		args = append(args, "--customize-hook=chroot \"$1\" dpkg --purge "+strings.Join(r.Purged, " "))
	}
	if len(r.Offered) > 0 {
		args = append(args, fmt.Sprintf(`--customize-hook=mkdir -p "$1"/%[1]s/partial && chroot "$1" apt-get install -y --download-only --no-install-recommends -o Dir::Cache::archives=/%[1]s %[2]s`,
			OfferedFolder, strings.Join(r.Offered, " ")))
	}
	if len(r.Fetched) > 0 {
		args = append(args, fmt.Sprintf(`--customize-hook=mkdir -p "$1"/%[1]s && chroot "$1" sh -c 'cd /%[1]s && apt-get -o APT::Sandbox::User=root download %[2]s'`,
			OfferedFolder, strings.Join(r.Fetched, " ")))
	}
	lines := sources(r.Suite)
	for source, suite := range r.Pinned {
		args = append(args, fmt.Sprintf(`--setup-hook=mkdir -p "$1"/etc/apt/preferences.d && printf 'Package: src:%s\nPin: release n=%s\nPin-Priority: 1001\n' > "$1"/etc/apt/preferences.d/%[1]s`, source, suite))
		lines += sources(suite)
	}
	args = append(args, r.Suite, root)
	for _, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		args = append(args, strings.ReplaceAll(line, "http://"+aptmirror.Host, server.URL))
	}
	// In namespaces of its own, neither mmdebstrap's mounts of the host's /dev and
	// /proc nor its children outlive it. The tree can be deleted after any failure.
	script := "mount --make-rprivate / && mount -t proc proc /proc && exec mmdebstrap \"$@\""
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", script, "sh"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
	// The kernel sends Pdeathsig when this thread ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Dir(root), "LC_ALL=C.UTF-8")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running mmdebstrap: %w:\n%s", errors.Join(context.Cause(ctx), err), out)
	}
	return nil
}

// layDown changes the output of mmdebstrap to the state of an image.
func (r recipe) layDown(root string) error {
	if err := errors.Join(RemoveAll(root, r.Removed), Write(root, r.Files...)); err != nil {
		return err
	}
	for path, target := range r.Links {
		if err := os.Symlink(target, filepath.Join(root, path)); err != nil {
			return fmt.Errorf("linking %s: %w", path, err)
		}
	}
	return nil
}

// RemoveAll removes from a tree what patterns match, with everything below.
func RemoveAll(root string, patterns []string) error {
	for _, pattern := range patterns {
		matches, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return fmt.Errorf("removing %s: %w", pattern, err)
		}
		for _, match := range matches {
			if err := os.RemoveAll(match); err != nil {
				return fmt.Errorf("removing %s: %w", pattern, err)
			}
		}
	}
	return nil
}

// Write lays files down in a tree.
func Write(root string, files ...File) error {
	for _, f := range files {
		if err := f.write(root); err != nil {
			return err
		}
	}
	return nil
}

func (f File) write(root string) error {
	path := filepath.Join(root, f.Path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing %s: %w", f.Path, err)
	}
	if err := os.WriteFile(path, []byte(f.Content), f.Mode); err != nil {
		return fmt.Errorf("writing %s: %w", f.Path, err)
	}
	// WriteFile keeps the mode of an existing file, and applies the umask.
	if err := os.Chmod(path, f.Mode); err != nil {
		return fmt.Errorf("writing %s: %w", f.Path, err)
	}
	return nil
}

// makeLoader writes GRUB's two images into the tree with the tree's own GRUB. A
// disk made of the tree only has to copy them.
func (r recipe) makeLoader(ctx context.Context, root string) error {
	script := `set -e
mkdir -p "$1"
cp /usr/lib/grub/i386-pc/boot.img "$1/boot.img"
images=$1; prefix=$2; shift 2
grub-mkimage -O i386-pc -p "$prefix" -o "$images/core.img" "$@"`
	args := append([]string{root, "sh", "-c", script, "sh", grubImages, "(hd0,msdos1)" + grubFolder}, r.Loader...)
	if out, err := exec.CommandContext(ctx, "chroot", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("making the boot loader: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
