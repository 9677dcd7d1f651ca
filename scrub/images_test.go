//go:build linux

package scrub

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
)

// An audit compares containerd's images with the manifest, on an image root too.
func TestMissingImagesAreFound(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	text, err := (&manifest.Manifest{Images: []manifest.Image{{Name: "registry.example/app:1", Digest: digest}}}).Encode()
	require.NoError(t, err)
	h, root := tree(t, map[string]string{"etc/passwd": passwd, manifest.Path[1:]: string(text)})
	assert.Equal(t, []string{"image registry.example/app:1: containerd does not have the image: provision again"}, audit(t, h, "images-there"))
	metadata(t, root, []string{"k8s.io", "images", "registry.example/app:1"})
	assert.Equal(t, []string{"image registry.example/app:1: containerd has : provision again"}, audit(t, h, "images-there"))
	require.NoError(t, os.WriteFile(filepath.Join(root, containerdMeta), []byte("no database"), 0o600))
	items, err := Spec{Only: []string{"images-there"}}.AuditItems(nil)
	require.NoError(t, err)
	_, err = items[0].Plan(t.Context(), h)
	require.ErrorContains(t, err, "reading containerd's metadata", "unreadable metadata must be an error")
}

func TestAMachineWithoutRecordedImagesHasNoFinding(t *testing.T) {
	h, _ := tree(t, map[string]string{"etc/passwd": passwd})
	assert.Empty(t, audit(t, h, "images-there"))
	items, err := Spec{Only: []string{"images-there"}}.AuditItems(nil)
	require.NoError(t, err)
	assert.Equal(t, string(Inspect), items[0].Phase())
}
