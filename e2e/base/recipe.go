package base

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine/aptmirror"
)

// File is a file that a recipe writes into the tree.
type File struct {
	Path    string // absolute path on the machine
	Content string
	Mode    fs.FileMode
}

// recipe defines a base system completely; its hash is the cache key.
type recipe struct {
	Suite    string
	Variant  string `json:",omitempty"` // variant of mmdebstrap; "important" when empty
	Packages []string
	Excluded []string // globs of paths that dpkg does not unpack
	Purged   []string
	Removed  []string // paths to remove
	Files    []File
	Links    map[string]string // path: target
	Loader   []string          // modules of the boot loader's core image
	Revision int               // increases when the code that carries out the recipe changes
	Offered  []string          `json:",omitempty"` // downloaded with their dependencies, not installed
	Fetched  []string          `json:",omitempty"` // downloaded without their dependencies
	Pinned   map[string]string `json:",omitempty"` // suites by source package
}

// OfferedFolder is the folder of a tree for packages that were only downloaded.
const OfferedFolder = "offered"

// Plain returns a tree with these packages. It downloads the offered packages with
// their dependencies, and the fetched ones alone, into OfferedFolder. Pinned source
// packages come from another suite.
func (d Debian) Plain(ctx context.Context, packages, offered, fetched []string, pinned map[string]string, log io.Writer) (string, error) {
	r := recipe{Suite: d.Suite, Packages: packages, Offered: offered, Fetched: fetched, Pinned: pinned}
	r.Excluded = newRecipe(d.Suite).Excluded
	return r.prepare(ctx, log)
}

//go:embed recipe.yaml
var recipeFile []byte

// newRecipe returns the recipe of a suite: the contents of Debian's own cloud
// image for EC2 that matter for imaging.
func newRecipe(suite string) recipe {
	r := recipe{Suite: suite}
	if err := yaml.UnmarshalStrict(recipeFile, &r); err != nil {
		panic(err) // the file is part of the program
	}
	for i := range r.Files {
		r.Files[i].Content = strings.ReplaceAll(r.Files[i].Content, "{sources}", sources(suite))
	}
	return r
}

// sources names the harness's mirror. The dates are not checked, because the
// mirror may serve a cache that is older than the archive's Valid-Until. The
// signatures are checked.
func sources(suite string) string {
	var text strings.Builder
	entries := []struct{ archive, suite string }{{"debian", suite}}
	if suite != "unstable" {
		entries = append(entries, []struct{ archive, suite string }{{"debian", suite + "-updates"}, {"debian-security", suite + "-security"}}...)
	}
	for _, entry := range entries {
		fmt.Fprintf(&text, "deb [check-valid-until=no check-date=no] %s %s main\n",
			aptmirror.Source(entry.archive), entry.suite)
	}
	return text.String()
}

// grubFolder holds the boot loader's configuration and the two images that
// grub-install makes: boot.img for the disk's first sector, core.img for the
// following ones.
const (
	grubFolder = "/boot/grub"
	grubImages = grubFolder + "/i386-pc"
)

// RootLabel is the label of the root file system of a disk image. The base
// system's boot loader finds the file system by this label.
const RootLabel = "root"

// key names the recipe's result in the cache.
func (r recipe) key() (string, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("computing the base system's key: %w", err)
	}
	sum := sha256.Sum256(text)
	return r.Suite + "-" + hex.EncodeToString(sum[:8]), nil
}

// lockPause is how long Install waits before a retry while another apt-get
// holds the lock of the package lists. apt itself waits for dpkg's lock, but
// not for this one.
const lockPause = 2 * time.Second

// Install makes sure that Debian packages are installed on the host, for
// harnesses that need their programs. If packages are missing, it runs apt-get
// as root. It refreshes the package lists only after a first failure. The error
// has the output of apt-get.
func Install(ctx context.Context, log io.Writer, packages ...string) error {
	missing, err := missing(ctx, packages)
	if err != nil || len(missing) == 0 {
		return err
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("installing %s needs root: run the tests as root, or run: sudo apt-get install %s",
			strings.Join(missing, ", "), strings.Join(missing, " "))
	}
	fmt.Fprintf(log, "installing host packages: %s\n", strings.Join(missing, " "))
	install := append([]string{"install", "-y", "--no-install-recommends"}, missing...)
	if err := aptGet(ctx, install...); err == nil {
		return nil
	}
	if err := aptGet(ctx, "update"); err != nil {
		return fmt.Errorf("installing %s: %w", strings.Join(missing, ", "), err)
	}
	if err := aptGet(ctx, install...); err != nil {
		return fmt.Errorf("installing %s: %w", strings.Join(missing, ", "), err)
	}
	return nil
}

// missing returns the packages that dpkg does not list as installed.
func missing(ctx context.Context, packages []string) ([]string, error) {
	args := append([]string{"-W", "-f", "${db:Status-Status} ${Package}\n"}, packages...)
	out, err := exec.CommandContext(ctx, "dpkg-query", args...).Output()
	var exit *exec.ExitError
	// Status 1 says that a package is unknown: the package is not installed.
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		return nil, fmt.Errorf("listing installed packages with dpkg (the harness needs a Debian or Ubuntu host): %w", err)
	}
	return absent(packages, string(out)), nil
}

// absent returns the packages without an "installed NAME" line in status.
func absent(packages []string, status string) []string {
	installed := map[string]bool{}
	for line := range strings.Lines(status) {
		if name, found := strings.CutPrefix(strings.TrimSpace(line), "installed "); found {
			installed[name] = true
		}
	}
	var names []string
	for _, name := range packages {
		if !installed[name] {
			names = append(names, name)
		}
	}
	return names
}

func aptGet(ctx context.Context, args ...string) error {
	for {
		cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-q", "-o", "DPkg::Lock::Timeout=600"}, args...)...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		out, err := cmd.CombinedOutput()
		if err == nil {
			return nil
		}
		if !bytes.Contains(out, []byte("Could not get lock")) {
			return fmt.Errorf("running apt-get %s: %w:\n%s", args[0], err, out)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for another apt-get to finish: %w", ctx.Err())
		case <-time.After(lockPause):
		}
	}
}

// lock takes an advisory lock that ends with the process. It waits for another
// holder until ctx ends.
func lock(ctx context.Context, path string, log io.Writer) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	told := false
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), file.Close())
		}
		if !told {
			told = true
			fmt.Fprintf(log, "waiting for another process that holds %s\n", path)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("waiting for %s: %w", path, ctx.Err()), file.Close())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// motoPackages are moto's server, the packages that it needs to start, and the
// AWS CLI. motoSuite is the first release of Debian that has moto.
var motoPackages = []string{"python3-moto", "python3-flask", "python3-flask-cors", "awscli"}

const motoSuite = "trixie"

// Moto returns the root of a system with moto's server and the AWS CLI. It
// builds the root if the cache has none (about a minute). Debian releases
// before trixie have no moto, and a separate root keeps its three hundred
// packages off the host. The tree is shared: never write into it.
func Moto(ctx context.Context, log io.Writer) (string, error) {
	r := recipe{Suite: motoSuite, Variant: "apt", Packages: motoPackages, Excluded: newRecipe(motoSuite).Excluded}
	return r.prepare(ctx, log)
}
