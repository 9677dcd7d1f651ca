package lab

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// Disk is the path of a captured disk.
type Disk string

// Sh runs a shell script on the host with the disk's file system at $ROOT, in a
// mount namespace that ends with the script. If write is false, the mount is
// read-only and ignores the journal. If write is true, it is mounted as on a
// machine. $EKSNODE is the command. Sh returns the script's output and exit
// code.
func (d Disk) Sh(t testing.TB, write bool, script string, args ...string) (said string, code int) {
	t.Helper()
	options := "loop,offset=1048576"
	if !write {
		options += ",ro,noload"
	}
	const mount = `mount -t ext4 -o "$OPTIONS" "$DISK" "$ROOT" || exit 99
trap 'umount "$ROOT"' EXIT
`
	cmd := exec.CommandContext(t.Context(), "unshare", append([]string{"--mount", "--propagation", "private", "sh", "-c", mount + script, "sh"}, args...)...)
	cmd.Env = append(os.Environ(), "OPTIONS="+options, "DISK="+string(d), "ROOT="+t.TempDir(), "EKSNODE="+Eksnode(t))
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		require.NotEqual(t, 99, exit.ExitCode(), "%s", exit.Stderr)
		return string(out) + string(exit.Stderr), exit.ExitCode()
	}
	require.NoError(t, err)
	return string(out), 0
}

// Audit audits the disk. It returns whether the audit passes, and the output.
func (d Disk) Audit(t testing.TB) (clean bool, said string) {
	t.Helper()
	said, code := d.Sh(t, true, `"$EKSNODE" audit --root "$ROOT" 2>&1`)
	require.Contains(t, []int{0, 1}, code, said)
	return code == 0, said
}

// Scrub scrubs the disk.
func (d Disk) Scrub(t testing.TB) {
	t.Helper()
	said, code := d.Sh(t, true, `"$EKSNODE" scrub --yes --root "$ROOT" 2>&1`)
	require.Zero(t, code, said)
}

// Plan lists the paths that a scrub of the disk would change, by rule.
func (d Disk) Plan(t testing.TB) map[string][]string {
	t.Helper()
	// Exit code 1 means that the plan has a finding.
	out, code := d.Sh(t, false, `"$EKSNODE" scrub --dry-run --root "$ROOT" --output json 2>/dev/null`)
	require.Contains(t, []int{0, 1}, code, out)
	var report plan.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	found := map[string][]string{}
	for _, item := range report.Plan {
		for _, action := range item.Actions {
			found[item.Item] = append(found[item.Item], action.Target)
		}
	}
	return found
}

// Journal is the inode of an ext4's journal. Its blocks are overwritten in
// rotation. Free is the owner of blocks without an inode.
const (
	Journal = "8"
	Free    = "free"
)

// Search searches for a word. It returns the files with the word, and the
// blocks of the file system with the word, with their inodes.
func (d Disk) Search(t testing.TB, word string) (files []string, blocks map[int64]string) {
	t.Helper()
	out, _ := d.Sh(t, false, `grep -rlFs "$1" "$ROOT"`, word)
	files = strings.Fields(out)
	blocks = map[int64]string{}
	out, _ = d.Sh(t, false, `blocks=$(grep -obaF "$1" "$DISK" | cut -d: -f1 | while read -r at; do echo $(((at - 1048576) / 4096)); done | sort -un | tr '\n' ' ')
[ -z "$blocks" ] || debugfs -R "icheck $blocks" "$DISK?offset=1048576" 2> /dev/null | tail -n +2`, word)
	for line := range strings.Lines(out) {
		block, owner, _ := strings.Cut(strings.TrimSpace(line), "\t")
		n, err := strconv.ParseInt(block, 10, 64)
		require.NoError(t, err, line)
		if strings.HasPrefix(owner, "<") {
			owner = Free
		}
		blocks[n] = owner
	}
	return files, blocks
}

// File is an entry of a container image's layer: the tar header, and the
// content of a regular file.
type File struct {
	tar.Header
	Content []byte
}

// Program returns an executable file.
func Program(path string, content []byte) File {
	return File{tar.Header{Name: path, Mode: 0o755, Size: int64(len(content))}, content}
}

// Image returns a container image with one layer, for this architecture.
func Image(t testing.TB, config v1.Config, files ...File) v1.Image {
	t.Helper()
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	for _, f := range files {
		require.NoError(t, w.WriteHeader(&f.Header))
		_, err := w.Write(f.Content)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text.Bytes())), nil })
	require.NoError(t, err)
	image, err := mutate.AppendLayers(empty.Image, layer)
	require.NoError(t, err)
	about, err := image.ConfigFile()
	require.NoError(t, err)
	about.OS, about.Architecture, about.Config = "linux", runtime.GOARCH, config
	image, err = mutate.ConfigFile(image, about)
	require.NoError(t, err)
	return image
}

// Import imports images by their names into the machine's containerd, which
// must run.
func (n *Node) Import(t testing.TB, options string, images map[string]v1.Image) {
	t.Helper()
	named := map[name.Reference]v1.Image{}
	for text, image := range images {
		tag, err := name.NewTag(text)
		require.NoError(t, err)
		named[tag] = image
	}
	var archive bytes.Buffer
	require.NoError(t, tarball.MultiRefWrite(named, &archive))
	result, err := n.Run(n.ctx, `sudo "$(command -v ctr)" --namespace k8s.io images import `+options+" -", &archive)
	require.NoError(t, err)
	require.Zero(t, result.Code, result.Stderr)
}

// Registry is an empty registry of images.
func Registry() http.Handler { return registry.New(registry.Logger(log.New(io.Discard, "", 0))) }

// Push sends an image, or an index of images, to a registry in the lab.
func (l *Lab) Push(t testing.TB, to string, image remote.Taggable) {
	t.Helper()
	ref, err := name.ParseReference(to, name.Insecure)
	require.NoError(t, err)
	require.NoError(t, remote.Push(ref, image,
		remote.WithTransport(&http.Transport{DialContext: l.Dial}), remote.WithContext(l.Ctx)))
}

// Busybox returns the host's static busybox at /bin/busybox, and links with the
// names of applets.
func Busybox(t testing.TB, names ...string) []File {
	t.Helper()
	require.NoError(t, base.Install(t.Context(), t.Output(), "busybox-static"))
	program := testkit.Content(t, "/bin/busybox")
	files := []File{Program("bin/busybox", []byte(program))}
	for _, name := range names { // hard links, so that a test that hides one name does not hide all
		files = append(files, File{Header: tar.Header{Name: "bin/" + name, Typeflag: tar.TypeLink, Linkname: "bin/busybox", Mode: 0o755}})
	}
	return files
}

// Guide returns the newest content of the SCAP Security Guide for a product, such as debian13,
// from Debian's packages.
func Guide(t testing.TB, product string) string {
	t.Helper()
	newest, err := base.Debian{Suite: "unstable"}.Plain(t.Context(), []string{"ca-certificates"}, nil,
		[]string{"ssg-debian", "ssg-debderived", "ssg-nondebian"}, nil, t.Output())
	require.NoError(t, err)
	folder := t.TempDir()
	file := "./usr/share/xml/scap/ssg/content/ssg-" + product + "-ds.xml"
	out, err := exec.CommandContext(t.Context(), "sh", "-c", `cd "$0"; for package in "$2"/ssg-*.deb; do
dpkg-deb --fsys-tarfile "$package" | tar -x "$1"; done`, folder, file, filepath.Join(newest, base.OfferedFolder)).CombinedOutput()
	require.FileExists(t, filepath.Join(folder, file), "%s%v", out, err)
	return filepath.Join(folder, file)
}
