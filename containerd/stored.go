package containerd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// content is containerd's content store.
const content = "/var/lib/containerd/io.containerd.content.v1.content/blobs"

// stored reads the metadata of a containerd that does not run.
func stored(h *host.Host) ([]Image, error) {
	var images []Image
	err := View(h, func(tx *bbolt.Tx) error {
		all := below(tx.Bucket([]byte("v1")), Namespace, "images")
		if all == nil {
			return nil
		}
		return all.ForEachBucket(func(name []byte) error {
			images = append(images, image(all.Bucket(name), string(name)))
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	for n := range images {
		if images[n].Missing, err = missing(h, images[n].Digest); err != nil {
			return nil, err
		}
	}
	return images, nil
}

// below is a bucket in buckets; nil where one is missing.
func below(b *bbolt.Bucket, names ...string) *bbolt.Bucket {
	for _, name := range names {
		if b == nil {
			return nil
		}
		b = b.Bucket([]byte(name))
	}
	return b
}

// image reads an image's record; the form is that of containerd's package
// core/metadata/buckets.go.
func image(b *bbolt.Bucket, name string) Image {
	i := Image{Name: name}
	if target := b.Bucket([]byte("target")); target != nil {
		i.Digest = string(target.Get([]byte("digest")))
	}
	if labels := b.Bucket([]byte("labels")); labels != nil {
		key, value, _ := strings.Cut(Pinned, "=")
		i.Pinned = string(labels.Get([]byte(key))) == value
	}
	return i
}

// part is what a manifest points to.
type part struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// missing says what of an image is not in the content store. Of a list of
// manifests only the list is looked for: which of them the machine needs is
// containerd's to know.
func missing(h *host.Host, digest string) (string, error) {
	text, err := h.Content(blob(digest))
	if err != nil {
		return "", fmt.Errorf("reading containerd's content: %w", err)
	}
	if text == nil {
		return "the manifest " + digest, nil
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
			return "the blob " + p.Digest, nil
		case err != nil:
			return "", fmt.Errorf("looking at containerd's content: %w", err)
		case st.Size() != p.Size:
			return fmt.Sprintf("the blob %s has %d bytes, not %d", p.Digest, st.Size(), p.Size), nil
		}
	}
	return "", nil
}

// blob is where the content store has a blob.
func blob(digest string) string {
	algorithm, sum, _ := strings.Cut(digest, ":")
	return path.Join(content, path.Base(algorithm), path.Base(sum))
}
