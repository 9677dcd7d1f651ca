//go:build e2e

package join_test

import (
	_ "embed"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/join"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// Unique names of the clusters.
const (
	nameOfA = "earlier-4c1f9e"
	nameOfB = "next-4c1f9e"
)

// given is an image that was built before.
var given = flag.String("image", "", "image of make image to test; builds an image when empty")

// world is two clusters in a lab, and the account of their instances.
type world struct {
	*lab.Lab
	t          *testing.T
	identities *join.Identities
	metadata   *lab.Metadata
	folder     string // logs and keys, kept when the test fails
	image      string // built by Packer, with the pods' images
	a, b       *cluster
	started    time.Time
	mutex      *sync.Mutex // guards journal.Steps
	journal    *journal
	// machine id of the first instance
	machineID *string
}

// in returns the world for a subtest.
func (w *world) in(t *testing.T) *world {
	inner := *w
	inner.t = t
	return &inner
}

// results returns the folder for reports and the logs of failed tests.
func results(t *testing.T) string {
	t.Helper()
	folder, err := filepath.Abs("../../build/join")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(folder, 0o755))
	return folder
}

// openWorld makes an image of a system, and starts the clusters. limit bounds the
// whole test.
func openWorld(t *testing.T, system lab.System, limit time.Duration) *world {
	t.Helper()
	var built string
	w := openClusters(t, system, limit, []string{nameOfA, nameOfB}, func(w *world) {
		w.phase("the image, by packer, while two API servers start", func() { built = w.build(system) })
	})
	w.phase("pods' images", func() { w.equip(built) })
	w.step("two clusters and the image are ready")
	return w
}

// openClusters starts clusters with these names: the first is A, and the last is B. It calls build
// while the API servers start.
func openClusters(t *testing.T, system lab.System, limit time.Duration, names []string, build func(*world)) *world {
	t.Helper()
	w := &world{
		t: t, identities: &join.Identities{}, folder: filepath.Join(results(t), t.Name()),
		started: time.Now(), mutex: &sync.Mutex{}, journal: &journal{}, machineID: new(string),
	}
	require.NoError(t, os.RemoveAll(w.folder))
	require.NoError(t, os.MkdirAll(w.folder, 0o755))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the control planes' logs are in %s", w.folder)
		} else {
			assert.NoError(t, os.RemoveAll(w.folder))
		}
	})
	w.phase("packages and the base system", func() {
		w.Lab = lab.Open(t, limit, machine.Node)
		if system.Shape != nil {
			w.User = system.Shape.User
		}
	})
	w.metadata = w.ServeMetadata(t)
	var programs map[string]string
	w.phase("programs, from source or the cache", func() { programs = fetch(t, controlPlane, inImages) })
	startEtcd(t, w.Lab, programs[tools.NameEtcd], w.folder)
	var clusters []*cluster
	for n, name := range names {
		clusters = append(clusters, startCluster(t, w.Lab, byte(n+1), name, programs, w.identities, w.folder))
	}
	w.a, w.b = clusters[0], clusters[len(clusters)-1]
	build(w)
	w.phase("the clusters", func() {
		for _, c := range clusters {
			c.complete(t)
			c.must(t, strings.ReplaceAll(network, "{busybox}", busyboxImage), "apply", "--filename=-")
			w.step("%s is up", c.name)
		}
	})
	return w
}

// controlPlane lists the programs of a cluster. inImages lists those of packer
// and of a node. All are built from source.
var (
	controlPlane = []string{tools.NameEtcd, tools.NameAPIServer, tools.NameControllerManager, tools.NameScheduler, tools.NameKubectl, tools.NameKubeadm}
	inImages     = []string{tools.NamePacker, tools.NameKubelet, tools.NameCredentialProvider, tools.NameCNIPlugins, tools.NameContainerd, tools.NameRunc}
)

// fetch builds the programs that the cache lacks, and returns their paths.
func fetch(t *testing.T, names ...[]string) map[string]string {
	t.Helper()
	paths := map[string]string{}
	for _, list := range names {
		for _, name := range list {
			path, err := tools.Build(t.Context(), name, "", runtime.GOARCH, t.Output())
			require.NoError(t, err)
			paths[name] = path
		}
	}
	return paths
}

// build makes the image like `make image`.
func (w *world) build(system lab.System) string {
	w.t.Helper()
	if *given != "" {
		return *given
	}
	image := filepath.Join(w.t.TempDir(), "built.raw")
	reports := filepath.Join(w.folder, "reports")
	require.NoError(w.t, os.Mkdir(reports, 0o755))
	build := lab.Build{Kind: machine.Nspawn, System: system, Image: image, Reports: reports}
	if system.Shape == nil {
		build.Run(w.t)
		return image
	}
	var err error
	build.Template, err = filepath.Abs("testdata/again")
	require.NoError(w.t, err)
	build.Run(w.t)
	w.changedNothing(reports)
	return image
}

const busyboxImage = "registry.eksnode.test/busybox:1"

// idle waits forever. Checks look for processes of that name.
var idle = v1.Config{Entrypoint: []string{"/bin/tail", "-f", "/dev/null"}, Env: []string{"PATH=/bin"}}

//go:embed testdata/network.yaml
var network string // the VPC CNI's daemon set does the same, from the kubelet's view

//go:embed testdata/kubelet-containerd.service
var amazonUnit string

// equip starts a machine from the built image, imports the pods' images into
// containerd, adds the programs of Amazon's images, and captures the machine
// scrubbed.
func (w *world) equip(built string) {
	w.t.Helper()
	w.image = filepath.Join(w.Folder(), "image.raw")
	i := w.launch("i-equip", built, "nobody", nil)
	// Without user data, the image starts neither service.
	assert.Equal(w.t, "inactive\ninactive", i.Sh(w.t, "cloud-init status --wait >/dev/null || true; systemctl is-active containerd kubelet || true"))
	i.Sh(w.t, "systemctl start containerd\ncommand -v aws-iam-authenticator || ln -s \"$(command -v eksnode)\" /usr/bin/aws-iam-authenticator\nsed \"s,/usr/bin/kubelet,$(command -v kubelet),\" > /etc/eks/containerd/kubelet-containerd.service <<'EOF'\n"+amazonUnit+"EOF")
	i.Import(w.t, "", podImages(w.t))
	w.scrubbed(i, w.image)
}

func podImages(t *testing.T) map[string]v1.Image {
	t.Helper()
	files := lab.Busybox(t, "sh", "sleep", "cat", "cp", "echo", "true", "ls", "grep", "wget", "hostname", "tail",
		"mount", "mkdir", "httpd")
	images := map[string]v1.Image{}
	for _, name := range []string{lab.PauseImage(), busyboxImage} {
		config := idle
		config.Labels = map[string]string{"org.opencontainers.image.ref.name": name} // without it, containerd would merge two images with the same layer
		images[name] = lab.Image(t, config, files...)
	}
	return images
}
