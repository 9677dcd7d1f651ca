// Package containerd lists the images of a machine's containerd. It calls a running
// containerd, and reads the files of a stopped one, also on an image root.
package containerd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

const (
	// Unit is containerd's unit.
	Unit = "containerd.service"
	// Namespace is containerd's namespace for the kubelet's containers and images.
	Namespace = "k8s.io"
	// Pinned is the label, with its value, that protects an image from the
	// kubelet's garbage collection.
	Pinned = "io.cri-containerd.pinned=pinned"
	// PauseImage is the pause image of a machine image that has its own. Amazon's images
	// for Amazon Linux 2023 have the image and its archive too.
	PauseImage = "localhost/kubernetes/pause:latest"
	// PauseArchive is the archive of PauseImage. First boot imports it again when
	// containerd has lost the image (amazon-eks-ami #2061).
	PauseArchive = "/etc/eks/pause.tar"
)

// Image is an image of the kubelet's namespace.
type Image struct {
	Name string
	// Digest is the digest of the manifest, or of the list of manifests.
	Digest string
	Pinned bool
	// Missing names the missing part of its content; empty means complete.
	Missing string
}

// Lacks says how an image differs from the required one; empty means no difference.
func Lacks(images []Image, name, digest string) string {
	i := slices.IndexFunc(images, func(i Image) bool { return i.Name == name })
	switch {
	case i < 0:
		return "containerd does not have the image"
	case images[i].Digest != digest:
		return "containerd has " + images[i].Digest
	case images[i].Missing != "":
		return "the image is incomplete in containerd: " + images[i].Missing
	case !images[i].Pinned:
		return "the image is not pinned, so the kubelet's garbage collection may remove it"
	}
	return ""
}

// Images lists the images. A machine without containerd has none.
func Images(ctx context.Context, h *host.Host) ([]Image, error) {
	active, err := IsActive(ctx, h)
	if err != nil {
		return nil, err
	}
	if active {
		return running(ctx, h)
	}
	return stored(h)
}

// IsActive says whether containerd runs.
func IsActive(ctx context.Context, h *host.Host) (bool, error) {
	if !h.HasSystemd() {
		return false, nil
	}
	return h.IsActive(ctx, Unit)
}

func running(ctx context.Context, h *host.Host) ([]Image, error) {
	if !h.HasCommand("ctr") {
		return nil, errors.New("containerd runs, but ctr is not installed: install ctr, or stop containerd so that " +
			"eksnode reads its metadata")
	}
	list, err := Ctr(ctx, h, "images", "list")
	if err != nil {
		return nil, err
	}
	complete, err := Ctr(ctx, h, "images", "check")
	if err != nil {
		return nil, err
	}
	state := map[string]string{}
	for line := range strings.Lines(string(complete)) {
		if f := strings.Fields(line); len(f) > 3 {
			state[f[0]] = f[3]
		}
	}
	var images []Image
	for line := range strings.Lines(string(list)) {
		f := strings.Fields(line) // REF TYPE DIGEST SIZE UNIT PLATFORMS LABELS
		if len(f) < 4 || f[0] == "REF" {
			continue
		}
		i := Image{Name: f[0], Digest: f[2], Pinned: slices.Contains(strings.Split(f[len(f)-1], ","), Pinned)}
		if state[i.Name] != "complete" {
			i.Missing = "ctr images check reports " + state[i.Name]
		}
		images = append(images, i)
	}
	return images, nil
}

// Ctr runs ctr in the kubelet's namespace.
func Ctr(ctx context.Context, h *host.Host, args ...string) ([]byte, error) {
	out, err := h.Run(ctx, host.Command{Argv: append([]string{"ctr", "--namespace", Namespace}, args...)})
	if err != nil {
		return nil, fmt.Errorf("running ctr: %w", err)
	}
	return out, nil
}

// content is the folder of containerd's content store
// (https://github.com/containerd/containerd/blob/main/docs/ops.md).
const content = "/var/lib/containerd/io.containerd.content.v1.content/blobs"

// stored lists the images in the metadata of a stopped containerd.
func stored(h *host.Host) ([]Image, error) {
	m, err := OpenMetadata(h, os.O_RDONLY)
	if m == nil || err != nil {
		return nil, err
	}
	all := m.Below("v1", Namespace, "images")
	if err := m.Close(); err != nil {
		return nil, err
	}
	var images []Image
	for _, name := range all.Buckets() {
		i := image(all.Below(name), name)
		if i.Missing, err = missing(h, i.Digest); err != nil {
			return nil, err
		}
		images = append(images, i)
	}
	return images, nil
}

// image reads an image's record, in the form of containerd's package
// core/metadata/buckets.go.
func image(b *Bucket, name string) Image {
	key, value, _ := strings.Cut(Pinned, "=")
	return Image{Name: name, Digest: Plain(b.Below("target").Value("digest")),
		Pinned: b.Below("labels").Value(key) == value}
}

// Plain is a name from the database for messages. A long or unprintable name is
// shortened and quoted.
func Plain(name string) string {
	if quoted := strconv.Quote(name); len(name) > 255 || len(quoted) != len(name)+2 {
		return fmt.Sprintf("%.255q", name)
	}
	return name
}

// manifestMost is the maximum size of an image's manifest in bytes, as for
// containerd and registries.
const manifestMost = 8 << 20

// part is a part of an image that a manifest names.
type part struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// missing names a part of an image that is not in the content store. For a list of
// manifests it checks only the list: only containerd decides which of them the
// machine needs.
func missing(h *host.Host, digest string) (string, error) {
	st, err := h.Files.Stat(blob(digest))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "the manifest " + digest, nil
	case err != nil:
		return "", fmt.Errorf("checking containerd's content: %w", err)
	case !st.Mode().IsRegular() || st.Size() > manifestMost:
		return "the manifest " + digest + ", which cannot be read", nil
	}
	text, err := h.Content(blob(digest))
	if err != nil {
		return "", fmt.Errorf("reading containerd's content: %w", err)
	}
	var m struct {
		Config part   `json:"config"`
		Layers []part `json:"layers"`
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return "the manifest " + digest + ", which cannot be read", nil
	}
	if m.Config.Digest == "" {
		return "", nil
	}
	for _, p := range append(m.Layers, m.Config) {
		st, err := h.Files.Stat(blob(p.Digest))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "the blob " + Plain(p.Digest), nil
		case err != nil:
			return "", fmt.Errorf("checking containerd's content: %w", err)
		case st.Size() != p.Size:
			return fmt.Sprintf("the blob %s has %d bytes, not %d", Plain(p.Digest), st.Size(), p.Size), nil
		}
	}
	return "", nil
}

// blob is the path of a blob in the content store.
func blob(digest string) string {
	algorithm, sum, _ := strings.Cut(digest, ":")
	return path.Join(content, path.Base(algorithm), path.Base(sum))
}

// MetadataPath is the file of containerd's metadata
// (https://github.com/containerd/containerd/blob/main/docs/ops.md).
const MetadataPath = "/var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db"

// metadataMost is the maximum size of the file in bytes. A node has some MiB.
const metadataMost = 1 << 30

// Metadata is containerd's metadata. No containerd can open the file until it is
// closed.
type Metadata struct {
	*Database
	file *os.File
}

// ReadMetadata reads the metadata, also while containerd runs. It returns nil
// without an error when there is none.
func ReadMetadata(h *host.Host) (*Metadata, error) {
	return readMetadata(h, os.O_RDONLY, func(*os.File) error { return nil })
}

// OpenMetadata reads the metadata of a stopped containerd. flag opens the file for
// reading or also for writing. It returns nil without an error when there is none.
func OpenMetadata(h *host.Host, flag int) (*Metadata, error) { return readMetadata(h, flag, lock) }

func readMetadata(h *host.Host, flag int, lock func(*os.File) error) (*Metadata, error) {
	file, err := h.Files.OpenOS(MetadataPath, flag, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		var db *Database
		if db, err = readLocked(file, lock); err == nil {
			return &Metadata{db, file}, nil
		}
		err = errors.Join(err, file.Close())
	}
	return nil, fmt.Errorf("reading containerd's metadata %s: %w", MetadataPath, err)
}

func readLocked(file *os.File, lock func(*os.File) error) (*Database, error) {
	st, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() > metadataMost {
		return nil, fmt.Errorf("not a regular file of at most %d bytes", metadataMost)
	}
	if err := lock(file); err != nil {
		return nil, err
	}
	return parse(file, st.Size())
}

// FreeContains reports whether an unused page contains a text.
func (m *Metadata) FreeContains(text []byte) (bool, error) {
	page := make([]byte, m.PageSize)
	for _, offset := range m.Free {
		if _, err := m.file.ReadAt(page, offset); err != nil {
			return false, fmt.Errorf("reading containerd's metadata %s: %w", MetadataPath, err)
		}
		if bytes.Contains(page, text) {
			return true, nil
		}
	}
	return false, nil
}

// Close closes the file, so that others may open it.
func (m *Metadata) Close() error { return m.file.Close() }

// WipeFree fills the free pages with zeros.
func (m *Metadata) WipeFree() error {
	zeros := make([]byte, m.PageSize)
	for _, offset := range m.Free {
		if _, err := m.file.WriteAt(zeros, offset); err != nil {
			return err
		}
	}
	return m.file.Sync()
}
