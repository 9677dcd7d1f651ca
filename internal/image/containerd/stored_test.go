//go:build linux

package containerd

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

// machine is an image root with one image in containerd's store.
type machine struct {
	*host.Host
	root, digest string
}

const pause = "localhost/kubernetes/pause:latest"

func newMachine(t *testing.T, pinned bool) *machine {
	t.Helper()
	m := &machine{root: t.TempDir()}
	config, layer := m.put(t, "config"), m.put(t, "a layer")
	m.digest = m.put(t, fmt.Sprintf(`{"config":{"digest":%q,"size":6},"layers":[{"digest":%q,"size":7}]}`, config, layer))
	keys := "v1 " + Namespace + " images " + pause + " target digest = " + m.digest +
		"\nv1 moby images another target digest = " + m.digest
	if pinned {
		keys += "\nv1 " + Namespace + " images " + pause + " labels io.cri-containerd.pinned = pinned"
	}
	testkit.Bolt(t, filepath.Join(m.root, MetadataPath), keys)
	var err error
	m.Host, err = host.Mounted(m.root)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// put adds content to the store.
func (m *machine) put(t *testing.T, text string) (digest string) {
	t.Helper()
	sum := sha256.Sum256([]byte(text))
	digest = "sha256:" + hex.EncodeToString(sum[:])
	name := filepath.Join(m.root, blob(digest))
	testkit.Write(t, name, text)
	return digest
}

func TestImagesOfAStoppedContainerd(t *testing.T) {
	m := newMachine(t, true)
	have, err := Images(t.Context(), m.Host)
	require.NoError(t, err)
	assert.Equal(t, []Image{{Name: pause, Digest: m.digest, Pinned: true}}, have)
	assert.Empty(t, Lacks(have, pause, m.digest))
	assert.Equal(t, "containerd has "+m.digest, Lacks(have, pause, "sha256:0"))
	assert.Equal(t, "containerd does not have the image", Lacks(have, "another", m.digest))
	m = newMachine(t, false)
	have, err = Images(t.Context(), m.Host)
	require.NoError(t, err)
	assert.Equal(t, "the image is not pinned, so the kubelet's garbage collection may remove it", Lacks(have, pause, m.digest))
}

func TestIncompleteImagesAreFound(t *testing.T) {
	layer := sha256.Sum256([]byte("a layer"))
	digest := "sha256:" + hex.EncodeToString(layer[:])
	for name, test := range map[string]struct {
		change func(name string) error
		of     func(*machine) string // the blob that is changed
		want   string                // {} means its digest
	}{
		"a layer":           {os.Remove, func(*machine) string { return digest }, "the image is incomplete in containerd: the blob {}"},
		"a part of a layer": {func(name string) error { return os.Truncate(name, 3) }, func(*machine) string { return digest }, "the image is incomplete in containerd: the blob {} has 3 bytes, not 7"},
		"the manifest":      {os.Remove, func(m *machine) string { return m.digest }, "the image is incomplete in containerd: the manifest {}"},
		"the manifest's end": {func(name string) error { return os.Truncate(name, 3) }, func(m *machine) string { return m.digest },
			"the image is incomplete in containerd: the manifest {}, which cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, true)
			changed := test.of(m)
			require.NoError(t, test.change(filepath.Join(m.root, blob(changed))))
			have, err := Images(t.Context(), m.Host)
			require.NoError(t, err)
			assert.Equal(t, strings.ReplaceAll(test.want, "{}", changed), Lacks(have, pause, m.digest))
		})
	}
}

func TestAMachineWithoutContainerdHasNoImages(t *testing.T) {
	h := hosttest.Mounted(t, t.TempDir())
	have, err := Images(t.Context(), h)
	require.NoError(t, err)
	assert.Empty(t, have)
}

func TestADamagedStoreIsAnError(t *testing.T) {
	m := newMachine(t, true)
	require.NoError(t, os.WriteFile(filepath.Join(m.root, MetadataPath), []byte("no database"), 0o600))
	_, err := Images(t.Context(), m.Host)
	require.ErrorContains(t, err, "reading containerd's metadata "+MetadataPath)
}
