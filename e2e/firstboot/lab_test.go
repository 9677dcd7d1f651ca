//go:build e2e

package firstboot_test

import (
	_ "embed"
	"flag"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/imdstest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
)

const (
	// limit bounds the test, and patience bounds each wait. Virtual machines are
	// slow without KVM: their bounds are slowness times as long.
	limit    = 8 * time.Minute
	patience = time.Minute
	slowness = 5
	tick     = 100 * time.Millisecond
)

// world is a lab with a metadata service and an image.
type world struct {
	*lab.Lab
	t        *testing.T
	image    string
	metadata *lab.Metadata
	// patience bounds each wait.
	patience time.Duration
}

// given is an image that was built before.
var given = flag.String("image", "", "image of an earlier run to boot; builds an image when empty")

// open opens a lab with an image. prepare, if not nil, changes the machine
// before it is provisioned.
func open(t *testing.T, prepare func(*node), more ...machine.Kind) *world {
	t.Helper()
	w := openLab(t, append(more, machine.Nspawn, machine.Node)...)
	if w.image = *given; w.image == "" {
		w.build(prepare)
	}
	return w
}

func openLab(t *testing.T, kinds ...machine.Kind) *world {
	t.Helper()
	times := time.Duration(1)
	if slices.Contains(kinds, machine.QEMU) {
		times = slowness
	}
	w := &world{Lab: lab.Open(t, times*limit, kinds...), t: t, patience: times * patience}
	w.metadata = w.ServeMetadata(t)
	return w
}

// builder boots a builder machine from the base system. The metadata service
// does not know the machine.
func (w *world) builder() *node {
	w.t.Helper()
	return &node{w.Start(w.t, machine.Config{Root: w.Root, InstanceID: "i-builder", ReadyWithin: 4 * w.patience}), w, w.t, nil}
}

// build makes the image: it prepares a machine if prepare is set, provisions,
// scrubs and captures it.
func (w *world) build(prepare func(*node)) {
	w.t.Helper()
	server := w.ServeMirror(w.t, w.Port("8080"), lab.Assets(w.t).Folder, mirror.Options{})
	n := w.builder()
	if prepare != nil {
		prepare(n)
	}
	n.Upload(w.t, lab.Agent(w.t), "/home/admin/eksnode")
	// The host may have cgroup v1.
	n.sh(`echo '{"failCgroupV1": false}' > /run/defaults
/home/admin/eksnode provision --kubernetes-version %s --source-url %s --allow-http --kubelet-defaults /run/defaults`,
		lab.Kubelet, server.URL())
	// There is no registry in the lab; nothing ever runs the image.
	n.sh("systemctl start containerd")
	n.Import(w.t, "--no-unpack",
		map[string]v1.Image{lab.PauseImage(): lab.Image(w.t, v1.Config{}, lab.Program("pause", nil))})
	n.sh("systemctl stop containerd; /home/admin/eksnode scrub --yes; rm /home/admin/eksnode")
	w.image = filepath.Join(w.Folder(), "image.raw")
	n.CaptureTo(w.t, w.image)
}

// instance boots an instance from the image. cloud-init and the metadata
// service both provide its user data.
func (w *world) instance(t *testing.T, id string, userData []byte) *node {
	t.Helper()
	return w.launch(t, machine.Config{Kind: machine.Node, Image: w.image, InstanceID: id, UserData: userData})
}

func (w *world) launch(t *testing.T, config machine.Config) *node {
	t.Helper()
	n := &node{world: w, t: t}
	config.ReadyWithin = 4 * w.patience
	config.Addressed = func(address netip.Addr) {
		n.metadata = imdstest.New(lab.Instance(config.InstanceID, address, config.UserData))
		w.metadata.Answer(address, n.metadata)
	}
	n.Node = w.Start(t, config)
	return n
}

// node is a booted instance.
type node struct {
	*lab.Node
	world    *world
	t        *testing.T
	metadata *imdstest.Service
}

// sh runs a shell script as root that must succeed, and returns its output.
func (n *node) sh(script string, args ...any) string {
	n.t.Helper()
	return n.Sh(n.t, script, args...)
}

// await runs a script until it succeeds.
func (n *node) await(what, script string, args ...any) string {
	n.t.Helper()
	return n.Await(n.t, what, n.world.patience, script, args...)
}

// joinedByAmazon leaves a machine in the state after a join by Amazon Linux 2's
// own script and its kubelet: the kubelet is enabled, with another name,
// address and cluster.
//
//go:embed testdata/joined.sh
var joinedByAmazon string

// testLeftoverState boots instances from an image that was not scrubbed.
func testLeftoverState(t *testing.T, w *world, first, second *cluster) {
	builder := w.instance(t, "i-earlier", nil)
	builder.booted()
	builder.sh(joinedByAmazon, first.ca, first.endpoint)
	image := filepath.Join(w.Folder(), "earlier.raw")
	builder.CaptureTo(t, image)
	boot := func(t *testing.T, id, userData string) *node {
		return w.launch(t, machine.Config{Kind: machine.Node, Image: image, InstanceID: id, UserData: []byte(userData)})
	}

	t.Run("NodeConfig", func(t *testing.T) {
		n := boot(t, "i-healed", nodeConfig(second, ""))
		n.joining(second)
		assert.False(t, first.askedBy(n), "the kubelet must never contact the old cluster")
		assert.Equal(t, generated(n), n.kubeletArguments())
		journal := n.sh("journalctl --boot --unit=eksnode-config --output=cat")
		for _, name := range []string{
			"/etc/systemd/system/kubelet.service", "/etc/systemd/system/sandbox-image.service",
			"/etc/systemd/system/kubelet.service.d/10-kubelet-args.conf", "/etc/systemd/system/kubelet.service.d/30-kubelet-extra-args.conf",
			"/var/lib/kubelet/cpu_manager_state", "/var/lib/kubelet/allocated_pods_state", "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint",
		} {
			assert.Contains(t, journal, "leftover-state: remove "+name+" (")
		}
		assert.Equal(t, "200", n.sh(`tr '\0' '\n' </proc/$(systemctl show --property=MainPID --value kubelet)/environ | sed -n 's/^GOGC=//p'`), "a user's drop-in must stay in effect")
		assert.Equal(t, "disabled\ndisabled", n.sh("systemctl is-enabled kubelet containerd || true"))
		n.again("eksnode init --config-source imds://user-data --config-source file:///etc/eks/nodeadm.d/")
		n.reboots(second)
	})
	t.Run("bootstrap.sh", func(t *testing.T) {
		call := fmt.Sprintf("/etc/eks/bootstrap.sh %s --apiserver-endpoint %s --b64-cluster-ca %s --dns-cluster-ip 10.100.0.10 --kubelet-extra-args --reserved-cpus=0", second.name, second.endpoint, second.base64CA())
		n := boot(t, "i-healed-script", "#!/bin/bash -xe\n"+call+"\n")
		n.joining(second)
		assert.Equal(t, scripted(n, "--reserved-cpus=0"), n.kubeletArguments())
		config := n.sh("cat /etc/kubernetes/kubelet/kubelet-config.json")
		assert.Contains(t, config, `"maxPods": 29`)
		assert.NotContains(t, config, "systemReservedCgroup")
		n.again(call)
	})
}
