package containerd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

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
	return Image{Name: name, Digest: Plain(b.Below("target").Value("digest")), Pinned: b.Below("labels").Value(key) == value}
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
