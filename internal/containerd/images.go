// Package containerd lists the images of a machine's containerd. It calls a running
// containerd, and reads the files of a stopped one, also on an image root.
package containerd

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// running lists the images of a running containerd.
func running(ctx context.Context, h *host.Host) ([]Image, error) {
	if !h.HasCommand("ctr") {
		return nil, errors.New("containerd runs, but ctr is not installed: install ctr, or stop containerd so that eksnode reads its metadata")
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
