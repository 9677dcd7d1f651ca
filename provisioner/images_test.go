package provisioner

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
)

var (
	digestA = "sha256:" + strings.Repeat("a", 64)
	digestB = "sha256:" + strings.Repeat("b", 64)
)

// locking is a spec with a lock of two images.
func locking(t *testing.T, c Containers) Spec {
	t.Helper()
	l := &asset.Lock{Images: []asset.LockedImage{{Name: "registry.k8s.io/pause:3.10", Digest: digestA}, {Name: "docker.io/library/busybox:1.37", Digest: digestB}}}
	text, err := l.Encode()
	require.NoError(t, err)
	l, err = asset.ParseLock(text)
	require.NoError(t, err)
	return Spec{KubernetesVersion: "1.34.4", Sources: Sources{Lock: l}, Containers: c}
}

func TestImagesAreRequestedByDigest(t *testing.T) {
	s := locking(t, Containers{Images: []string{"docker.io/library/busybox:1.37", "registry.k8s.io/pause:3.10@" + digestA}, PauseImage: "registry.k8s.io/pause:3.10"})
	require.NoError(t, s.Validate())
	references, err := s.References()
	require.NoError(t, err)
	assert.Equal(t, []string{"registry.k8s.io/pause:3.10@" + digestA, "docker.io/library/busybox:1.37@" + digestB, "registry.k8s.io/pause:3.10@" + digestA}, references)
	s = Spec{KubernetesVersion: "1.34.4", Containers: Containers{Images: []string{"registry.k8s.io/pause:3.10@" + digestB}}}
	require.NoError(t, s.Validate())
}

// pacman -Syu removes the running kernel's modules, but containerd needs overlay
// afterwards to unpack images.
func TestOverlayIsLoadedBeforeAnUpgrade(t *testing.T) {
	d := distroOf(t, "arch")
	h := bare(t, d)
	s := Spec{KubernetesVersion: "1.34.4", Containers: Containers{Images: []string{"registry.k8s.io/pause:3.10@" + digestA}}}
	actions := pending(t, h, d, s)
	assert.Less(t, strings.Index(actions, "run modprobe overlay"), strings.Index(actions, "run pacman -Syu"))
	assert.Contains(t, actions, "run modprobe overlay")

	require.NoError(t, h.Files.MkdirAll("/proc", 0o755))
	require.NoError(t, h.Files.WriteFile("/proc/filesystems", []byte("nodev\tproc\nnodev\toverlay\n"), host.Attributes{Mode: 0o644}))
	assert.NotContains(t, pending(t, h, d, s), "modprobe")
	require.NoError(t, h.Files.Remove("/proc/filesystems"))
	s.Images = nil
	assert.NotContains(t, pending(t, h, d, s), "modprobe", "without images nothing is loaded")
}

func TestRefusedImages(t *testing.T) {
	for name, test := range map[string]struct {
		locked bool
		is     Containers
		err    string
	}{
		"a tag alone": {false, Containers{Images: []string{"registry.k8s.io/pause:3.10"}},
			`images: "registry.k8s.io/pause:3.10" has no digest, and a tag may name another image tomorrow: add @sha256:DIGEST, or lock the digest with "eksnode lock --images registry.k8s.io/pause:3.10" and set lock_file`},
		"not in the lock": {true, Containers{Images: []string{"registry.k8s.io/pause:3.9@" + digestA}},
			`images: the lock file does not have the image registry.k8s.io/pause:3.9; add it with "eksnode lock --images registry.k8s.io/pause:3.9"`},
		"another digest than in the lock": {true, Containers{PauseImage: "registry.k8s.io/pause:3.10@" + digestB},
			"pause_image: registry.k8s.io/pause:3.10 is pinned to " + digestB + ", but the lock file has " + digestA + "; correct the field, or update the lock file"},
		"twice": {true, Containers{Images: []string{"registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"}},
			"images: registry.k8s.io/pause:3.10 is listed twice"},
		"no registry": {true, Containers{Images: []string{"busybox:1.37"}, PauseImage: "x"},
			"pause_image: \"x\" names no registry; write the full name, such as docker.io/library/busybox:1.37\nimages: \"busybox:1.37\" names no registry; write the full name, such as docker.io/library/busybox:1.37"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Spec{KubernetesVersion: "1.34.4", Containers: test.is}
			if test.locked {
				s = locking(t, test.is)
			}
			require.EqualError(t, s.Validate(), test.err)
		})
	}
}
