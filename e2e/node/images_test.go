//go:build e2e

package node_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// Addresses on the Packer host's loopback, which only the Packer host reaches.
const (
	registryAddress = "127.0.0.1:5000"
	mirrorAddress   = "127.0.0.1:8082"

	appImage   = registryAddress + "/team/app:1.2"
	pauseImage = registryAddress + "/eks/pause:3.10"
	pauseName  = "localhost/kubernetes/pause:latest"
)

// counted is a registry that counts its requests.
type counted struct {
	mu    sync.Mutex
	asked []string
	inner http.Handler
}

func (s *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	s.mu.Unlock()
	s.inner.ServeHTTP(w, r)
}

// since returns the requests since the last call.
func (s *counted) since() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

// registry serves a registry with two images on the Packer host's loopback, and
// returns their names.
func (b *bench) registry(t *testing.T) (s *counted, app, pause string) {
	t.Helper()
	s = &counted{inner: lab.Registry()}
	require.NoError(t, b.Serve(b.Ctx, registryAddress, s))
	return s, b.push(t, appImage), b.push(t, pauseImage)
}

// push pushes an image that contains only the agent, which needs no libraries,
// to the registry.
func (b *bench) push(t *testing.T, to string) (pinned string) {
	t.Helper()
	program := testkit.Content(t, lab.Agent(t))
	one := lab.Image(t, v1.Config{Entrypoint: []string{"/eksnode"}, Labels: map[string]string{"name": to}},
		lab.Program("eksnode", []byte(program)))
	list := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: one, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}}})
	digest, err := list.Digest()
	require.NoError(t, err)
	b.Push(t, to, list)
	return to + "@" + digest.String()
}

// TestImages turns a machine into a node that reaches neither the registry nor
// the mirror of programs. It then runs scrub and first boot.
func TestImages(t *testing.T) {
	t.Parallel()
	b := open(t)
	store, app, pause := b.registry(t)
	hidden := b.ServeMirror(t, mirrorAddress, b.assets.Folder, mirror.Options{})
	n := b.start(t, "i-images")
	for _, address := range []string{registryAddress, mirrorAddress, "10.77.0.1:5000", "10.77.0.1:8082"} {
		require.NotZero(t, n.Try(t, "timeout 5 bash -c '</dev/tcp/"+strings.Replace(address, ":", "/", 1)+"'").Code, "the machine reaches %s", address)
	}
	fields := fmt.Sprintf("download_on = \"packer-host\"\ncache_folder = %q\nimages = [%q]\npause_image = %q\n", filepath.Join(b.folder, "cache"), app, pause)
	provision := func(t *testing.T, more ...string) *run {
		t.Helper()
		return b.provision(t, n, hidden.URL(), append(more, fields)...)
	}
	t.Run("a dry run names the images and fetches nothing", func(t *testing.T) {
		store.since()
		r := provision(t, "dry_run = true").succeeds(t)
		assert.Contains(t, r.out.String(), "images: would fetch "+appImage+" ("+app+": not imported)")
		assert.Contains(t, r.out.String(), "images: would fetch "+pauseName+" ("+pause+": not imported)")
		assert.Empty(t, store.since())
	})
	t.Run("all images and programs come through the session", func(t *testing.T) {
		r := provision(t).succeeds(t)
		assert.Contains(t, r.out.String(), "the Packer host gets kubelet")
		assert.Contains(t, r.out.String(), "the Packer host gets the image "+app)
		assert.Equal(t, "Kubernetes v"+kubelet, n.Sh(t, "kubelet --version"))
		assert.Equal(t, "inactive", n.Sh(t, "systemctl is-active containerd || true"), "containerd must stay stopped until the node knows its cluster")
		n.nothingLeft(t)
	})
	t.Run("the manifest matches the machine", func(t *testing.T) { n.hasImages(t, app, pause) })
	t.Run("a second run changes nothing and sends no request", func(t *testing.T) {
		store.since()
		before := n.tree(t)
		_, items := provision(t).succeeds(t).outcome(t)
		assert.Equal(t, plan.Unchanged, items["images"])
		n.unchanged(t, before)
		assert.Empty(t, store.since())
	})
	t.Run("the Packer host does not download cached files again", func(t *testing.T) { b.testCache(t, n, store, hidden, provision) })
	t.Run("images that cannot be pulled", func(t *testing.T) { b.testNoImages(t, n, hidden, app) })
	n.audit(t, 0, "--rules can-join,images-there")
	t.Run("a scrub keeps the images", func(t *testing.T) {
		store.since()
		b.build(t, n, account{}, "eksnode-scrub", "").succeeds(t)
		n.hasImages(t, app, pause)
		said := n.audit(t, 0, "")
		assert.Contains(t, said, "PASS")
	})
	t.Run("a first boot pulls no image", func(t *testing.T) {
		n.Sh(t, "systemctl start containerd")
		for _, image := range []string{appImage, pauseName} {
			// The image is mounted instead of run: an nspawn machine permits no
			// session keyring in containers. Each has its own folder, because
			// containerd keeps a mount's name until its next collection.
			assert.Contains(t, n.Sh(t, `folder=$(mktemp -d /mnt/XXXXXX); ctr -n k8s.io images mount --snapshotter native %s $folder >/dev/null
				$folder/eksnode --version; ctr -n k8s.io images unmount --rm --snapshotter native $folder >/dev/null`, image), "eksnode version ")
			assert.Equal(t, image, n.Sh(t, `ctr --namespace k8s.io images list --quiet 'name==%s,labels."io.cri-containerd.pinned"==pinned'`, image), "first boot's query must find the image pinned")
		}
		n.audit(t, 0, "--rules images-there")
		assert.Empty(t, store.since())
	})
	t.Run("an audit finds a missing image, whether containerd runs or not", func(t *testing.T) {
		n.Sh(t, "ctr -n k8s.io images rm "+appImage)
		said := n.audit(t, 1, "--rules images-there")
		assert.Contains(t, said, appImage)
		assert.Contains(t, said, "containerd does not have the image")
		n.Sh(t, "systemctl stop containerd")
		said = n.audit(t, 1, "--rules images-there")
		assert.Contains(t, said, "containerd does not have the image")
		assert.NotContains(t, said, pauseName)
	})
}

// hasImages compares the manifest with containerd's own list, and stops
// containerd afterwards.
func (n *node) hasImages(t *testing.T, app, pause string) {
	t.Helper()
	m := n.manifest(t)
	require.Len(t, m.Images, 2)
	n.Sh(t, "systemctl start containerd")
	defer n.Sh(t, "systemctl stop containerd")
	for name, source := range map[string]string{appImage: app, pauseName: pause} {
		image, ok := m.Image(name)
		require.True(t, ok, name)
		assert.Equal(t, source, image.Source)
		assert.Contains(t, n.Sh(t, "ctr -n k8s.io images ls name==%s", name), image.Digest)
		assert.Contains(t, n.Sh(t, "ctr -n k8s.io images ls name==%s", name), "io.cri-containerd.pinned=pinned")
		assert.Equal(t, name, n.Sh(t, "ctr -n k8s.io images check -q name==%s", name), "the image must be complete and unpacked")
	}
	asset, ok := m.Asset("pause")
	require.True(t, ok)
	assert.Equal(t, "3.10", asset.Version)
	assert.Equal(t, asset.SHA256+"  /etc/eks/pause.tar", n.Sh(t, "sha256sum /etc/eks/pause.tar"))
	assert.Empty(t, n.Sh(t, "ls /etc/eks/eksnode/image.tar 2>/dev/null || true"))
}

// testCache removes the machine's kubelet and images while registry and mirror
// fail. The Packer host's cache must replace them.
func (b *bench) testCache(t *testing.T, n *node, store *counted, hidden *mirror.Server, provision func(*testing.T, ...string) *run) {
	kept := b.place(t, "/kubelet")
	hidden.Inject(mirror.Fail(kept, 503))
	defer hidden.Heal()
	n.Sh(t, "rm /usr/bin/kubelet; systemctl start containerd; ctr -n k8s.io images rm %s; systemctl stop containerd", appImage)
	store.since()
	_, items := provision(t).succeeds(t).outcome(t)
	assert.Equal(t, plan.Done, items["kubelet"])
	assert.Equal(t, plan.Done, items["images"])
	assert.Equal(t, plan.Unchanged, items["cni-plugins"])
	assert.Empty(t, store.since())
	assert.False(t, slices.ContainsFunc(hidden.Requests(), func(r mirror.Request) bool { return r.Path == kept && r.Status == 503 }), "the kubelet was requested from the mirror again")
}

// testNoImages requests images that no registry has. The machine stays
// unchanged.
func (b *bench) testNoImages(t *testing.T, n *node, hidden *mirror.Server, app string) {
	before := n.tree(t)
	absent := registryAddress + "/team/app:1.2@sha256:" + strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		image string
		words []string
	}{
		"a digest that the registry does not have": {absent, []string{"images: fetch " + appImage, "pulling the image " + absent + ": the registry does not have the image", "check name and digest"}},
		"a registry that is not there": {strings.Replace(app, "5000", "9", 1),
			[]string{"the Packer host cannot reach the registry", "connection refused", "image_archives"}},
	} {
		t.Run(name, func(t *testing.T) {
			b.provision(t, n, hidden.URL(), fmt.Sprintf("images = [%q]\ndownload_on = \"packer-host\"\ncache_folder = %q", c.image, t.TempDir())).fails(t, c.words...)
			n.unchanged(t, before)
		})
	}
}
