//go:build e2e

package join_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/join"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// The clusters' names, which nothing else is called.
const (
	nameOfA = "former-4c1f9e"
	nameOfB = "next-4c1f9e"
)

// patience bounds what a healthy node does.
const patience = 2 * time.Minute

// given is an image that was built before.
var given = flag.String("image", "", "the image to prove, as make image leaves it; one is built when empty")

// world is two clusters and an account in a lab.
type world struct {
	*join.Account
	t      *testing.T
	ctx    context.Context
	lab    *machine.Lab
	folder string // logs and keys, kept when the test fails
	image  string // as packer built it, with the pods' images
	// programs are the paths of what was built from modules.
	programs map[string]string
	a, b     *join.Cluster
	started  time.Time
	mutex    *sync.Mutex // guards journal.Steps
	journal  *journal
	// machineID is the first instance's.
	machineID *string
}

// logWriter hands the harness's messages to the test's log.
type logWriter struct{ t *testing.T }

func (w logWriter) Write(text []byte) (int, error) {
	w.t.Logf("%s", strings.TrimRight(string(text), "\n"))
	return len(text), nil
}

// results is where reports and the logs of failed tests go.
func results(t *testing.T) string {
	t.Helper()
	folder, err := filepath.Abs("../../build/join")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(folder, 0o755))
	return folder
}

// openWorld makes an image on a Debian release, the harness's usual one when
// suite is empty, and starts the clusters. limit bounds all that the test does.
func openWorld(t *testing.T, suite string, limit time.Duration) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, started: time.Now(), mutex: &sync.Mutex{}, journal: &journal{}, machineID: new(string), programs: map[string]string{}, folder: filepath.Join(results(t), t.Name())}
	require.NoError(t, os.RemoveAll(w.folder))
	require.NoError(t, os.MkdirAll(w.folder, 0o755))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the control planes' logs are in %s", w.folder)
		} else {
			assert.NoError(t, os.RemoveAll(w.folder))
		}
	})
	var err error
	w.phase("packages and the base system", func() {
		require.NoError(t, base.Install(ctx, logWriter{t}, "busybox-static"))
		w.lab, _, err = machine.Open(ctx, logWriter{t}, machine.Node)
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, w.lab.Close()) })
	w.Account, err = join.NewAccount(ctx, w.lab)
	require.NoError(t, err)
	w.phase("programs, from their modules or the cache", w.fetch)
	var built string
	w.phase("the image, by packer", func() { built = w.build(suite) })
	var started sync.WaitGroup
	started.Go(func() { w.phase("two clusters", w.clusters) })
	w.phase("pods' images, beside the clusters", func() { w.equip(built) })
	started.Wait()
	require.False(t, t.Failed())
	w.step("two clusters and the image are ready")
	return w
}

// programs are those of a control plane, of packer and of a node: all that is
// built from modules.
var programs = []string{
	tools.NameEtcd, tools.NameAPIServer, tools.NameControllerManager, tools.NameScheduler, tools.NameKubectl,
	tools.NamePacker, tools.NameKubelet, tools.NameCredentialProvider, tools.NameCNIPlugins,
}

// fetch builds the programs that the cache has not.
func (w *world) fetch() {
	w.t.Helper()
	for _, name := range programs {
		path, err := tools.Build(w.ctx, name, "", runtime.GOARCH, logWriter{w.t})
		require.NoError(w.t, err)
		w.programs[name] = path
	}
}

// build makes the image as `make image` does.
func (w *world) build(suite string) string {
	w.t.Helper()
	if *given != "" {
		return *given
	}
	image := filepath.Join(w.t.TempDir(), "built.raw")
	root, err := filepath.Abs("../..")
	require.NoError(w.t, err)
	cmd := exec.CommandContext(w.ctx, "go", "run", "./e2e/image", "-prove=false", "-suite", suite, "-image", image, "-reports", filepath.Join(w.folder, "reports"))
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.NoError(w.t, err, "%s", out)
	w.step("packer has built the image")
	return image
}

// equip starts a machine from the built image, gives containerd the pods'
// images and the machine what Amazon's images have besides, and captures it
// scrubbed.
func (w *world) equip(built string) {
	w.image = filepath.Join(w.lab.Folder(), "image.raw")
	if err := w.tryEquip(built); err != nil {
		w.t.Errorf("equipping the image: %v", err)
	}
}

func (w *world) tryEquip(built string) error {
	images, err := join.Images("/bin/busybox")
	if err != nil {
		return err
	}
	i, err := w.Launch(w.ctx, "i-equip", built, "nobody", nil)
	if err != nil {
		return err
	}
	if _, err := i.Do(w.ctx, "systemctl start containerd\n[ -e /usr/bin/aws-iam-authenticator ] || ln -s \"$(command -v eksnode)\" /usr/bin/aws-iam-authenticator\ncat > /etc/eks/containerd/kubelet-containerd.service <<'EOF'\n"+join.AmazonUnit+"EOF"); err != nil {
		return err
	}
	result, err := i.Run(w.ctx, "sudo ctr --namespace k8s.io images import -", bytes.NewReader(images))
	if err != nil || result.Code != 0 {
		return fmt.Errorf("importing the pods' images: %w: %s", err, result.Stderr)
	}
	return w.scrubbed(i, w.image)
}

// scrubbed scrubs an instance, powers it off, captures it and ends it.
func (w *world) scrubbed(i *join.Instance, image string) error {
	// One session: the scrub takes the key away that lets us in. What cloud-init
	// has not written yet it would write afterwards. The instance data is a mount,
	// which is no part of the disk.
	if _, err := i.Do(w.ctx, "cloud-init status --wait >/dev/null || true; umount -q /var/lib/cloud/seed/nocloud || true; eksnode scrub --yes && eksnode audit"); err != nil {
		return err
	}
	return w.captured(i, image)
}

func (w *world) captured(i *join.Instance, image string) error {
	if err := i.PowerOff(w.ctx); err != nil {
		return err
	}
	if err := i.Capture(w.ctx, image); err != nil {
		return err
	}
	return i.Close()
}

// clusters starts both.
func (w *world) clusters() {
	if err := w.tryClusters(); err != nil {
		w.t.Errorf("starting the clusters: %v", err)
	}
}

func (w *world) tryClusters() error {
	etcd, err := join.StartEtcd(w.lab, w.programs[tools.NameEtcd], w.folder)
	if err != nil {
		return err
	}
	w.t.Cleanup(func() { assert.NoError(w.t, etcd.Close()) })
	for i, c := range []**join.Cluster{&w.a, &w.b} {
		name := []string{nameOfA, nameOfB}[i]
		*c, err = join.StartCluster(w.ctx, w.lab, join.ClusterConfig{
			Name: name, Role: "nodes-of-" + name, Address: netip.AddrFrom4([4]byte{10, 78, 0, byte(1 + i)}), Etcd: etcd,
			Programs: join.Programs{
				APIServer: w.programs[tools.NameAPIServer], ControllerManager: w.programs[tools.NameControllerManager],
				Scheduler: w.programs[tools.NameScheduler], Kubectl: w.programs[tools.NameKubectl],
			},
			Identities: w.Identities, Folder: filepath.Join(w.folder, name), Log: logWriter{w.t},
		})
		if err != nil {
			return err
		}
		w.t.Cleanup(func() { assert.NoError(w.t, (*c).Close()) })
		if out, err := (*c).Kubectl(w.ctx, join.Network(), "apply", "-f", "-"); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		w.step("%s is up", (*c).Name)
	}
	return nil
}
