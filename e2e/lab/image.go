package lab

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"runtime"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
)

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
func Image(t *testing.T, config v1.Config, files ...File) v1.Image {
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
func (n *Node) Import(t *testing.T, options string, images map[string]v1.Image) {
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

// Busybox returns the host's static busybox at /bin/busybox, and links with the
// names of applets.
func Busybox(t *testing.T, names ...string) []File {
	t.Helper()
	require.NoError(t, base.Install(t.Context(), t.Output(), "busybox-static"))
	program, err := os.ReadFile("/bin/busybox")
	require.NoError(t, err)
	files := []File{Program("bin/busybox", program)}
	for _, name := range names { // hard links, so that a test that hides one name does not hide all
		files = append(files, File{Header: tar.Header{Name: "bin/" + name, Typeflag: tar.TypeLink, Linkname: "bin/busybox", Mode: 0o755}})
	}
	return files
}
