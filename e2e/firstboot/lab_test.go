//go:build e2e

package firstboot_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/imdstest"
)

const (
	// limit bounds the test, and patience each thing that is awaited; where there
	// are virtual machines, which are slow without KVM, slowness times as long.
	limit    = 8 * time.Minute
	patience = time.Minute
	slowness = 5
	tick     = 100 * time.Millisecond

	kubelet = "1.34.4"
)

// metadataAddress is the metadata service's; it exists in the lab only.
var metadataAddress = netip.MustParseAddr("169.254.169.254")

// lab is a lab with a metadata service and an image.
type lab struct {
	*machine.Lab
	ctx     context.Context
	t       *testing.T
	key     machine.Key
	image   string
	started time.Time
	// patience is how long each thing is awaited.
	patience time.Duration

	mutex     sync.Mutex
	instances map[netip.Addr]*imdstest.Service
}

// logWriter hands the harness's messages to the test's log.
type logWriter struct{ t *testing.T }

func (w logWriter) Write(text []byte) (int, error) {
	w.t.Logf("%s", strings.TrimRight(string(text), "\n"))
	return len(text), nil
}

// given is an image that was built before.
var given = flag.String("image", "", "the image to boot, as a test here left it; one is built when empty")

// open opens a lab with an image. prepare, if not nil, makes a machine ready
// before it is provisioned.
func open(t *testing.T, prepare func(*node), more ...machine.Kind) *lab {
	t.Helper()
	l, root := openLab(t, append(more, machine.Nspawn, machine.Node)...)
	if l.image = *given; l.image == "" {
		l.build(root, prepare)
	}
	return l
}

// openLab opens a lab, and returns the tree of a base system.
func openLab(t *testing.T, kinds ...machine.Kind) (l *lab, root string) {
	t.Helper()
	times := time.Duration(1)
	if slices.Contains(kinds, machine.QEMU) {
		times = slowness
	}
	ctx, cancel := context.WithTimeout(context.Background(), times*limit)
	t.Cleanup(cancel)
	l = &lab{ctx: ctx, t: t, started: time.Now(), patience: times * patience, instances: map[netip.Addr]*imdstest.Service{}}
	var err error
	l.Lab, root, err = machine.Open(ctx, logWriter{t}, kinds...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	l.key, err = machine.NewKey("test@eksnode.test")
	require.NoError(t, err)
	require.NoError(t, l.AddAddress(ctx, metadataAddress))
	require.NoError(t, l.Serve(ctx, net.JoinHostPort(metadataAddress.String(), "80"), l))
	return l, root
}

// ServeHTTP answers an instance, told by its address, about itself.
func (l *lab) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	l.mutex.Lock()
	service := l.instances[from.Addr()]
	l.mutex.Unlock()
	if err != nil || service == nil {
		http.Error(w, "no instance has this address", http.StatusForbidden)
		return
	}
	service.ServeHTTP(w, r)
}

// step says how far the test is, and when.
func (l *lab) step(format string, args ...any) {
	l.t.Logf("[%5.1f s] %s", time.Since(l.started).Seconds(), fmt.Sprintf(format, args...))
}

// command builds eksnode as the plugin carries it.
func command(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "eksnode")
	cmd := exec.Command("go", "build", "-trimpath", "-tags", "agent", "-ldflags", "-s -w", "-o", program, "./cmd/eksnode")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// builderID is the machine's that becomes the image; it has no metadata service.
const builderID = "i-builder"

// build makes the image: a machine is prepared, if there is anything to,
// provisioned, scrubbed and captured.
func (l *lab) build(root string, prepare func(*node)) {
	l.t.Helper()
	program := command(l.t)
	assets, err := mirror.Build(l.ctx, mirror.Versions{Kubelet: kubelet}, runtime.GOARCH, logWriter{l.t})
	require.NoError(l.t, err)
	listener, err := l.Listen(l.ctx, "tcp", l.HostAddress()+":8080")
	require.NoError(l.t, err)
	server, err := mirror.ServeOn(l.ctx, listener, assets.Folder, mirror.Options{})
	require.NoError(l.t, err)
	defer func() { assert.NoError(l.t, server.Close()) }()

	n := l.start(l.t, machine.Config{Root: root, InstanceID: builderID}, nil)
	if prepare != nil {
		prepare(n)
	}
	in, err := os.Open(program)
	require.NoError(l.t, err)
	defer in.Close()
	_, err = n.Run(l.ctx, "cat > eksnode && chmod +x eksnode", in)
	require.NoError(l.t, err)
	_, provider, err := tools.Find(tools.NameCredentialProvider, "")
	require.NoError(l.t, err)
	n.sh("/home/admin/eksnode provision --kubernetes-version %s --source-url %s --versions ecr-credential-provider=%s", kubelet, server.URL(), provider)
	n.pause()
	l.step("the machine is provisioned")
	n.sh("/home/admin/eksnode scrub --yes; rm /home/admin/eksnode")
	require.NoError(l.t, n.PowerOff(l.ctx))
	l.image = filepath.Join(l.Folder(), "image.raw")
	require.NoError(l.t, n.Capture(l.ctx, l.image))
	require.NoError(l.t, n.Machine.Close())
	l.step("the image is captured")
}

// instance boots an instance from the image. Its user data is what cloud-init
// and its metadata service hand out.
func (l *lab) instance(t *testing.T, id string, userData []byte) *node {
	t.Helper()
	return l.from(t, l.image, id, userData)
}

// from boots an instance from another image.
func (l *lab) from(t *testing.T, image, id string, userData []byte) *node {
	t.Helper()
	return l.start(t, machine.Config{Kind: machine.Node, Image: image, InstanceID: id, UserData: userData}, userData)
}

func (l *lab) start(t *testing.T, config machine.Config, userData []byte) *node {
	t.Helper()
	n := &node{lab: l, t: t}
	config.AuthorizedKeys, config.Signer = []string{l.key.Authorized}, l.key.Signer
	config.ReadyWithin = 4 * l.patience
	if config.InstanceID != builderID {
		config.Addressed = func(address netip.Addr) { n.metadata = l.launch(config.InstanceID, address, userData) }
	}
	var err error
	n.Machine, err = l.Start(l.ctx, config)
	require.NoError(t, err)
	l.step("%s is up", config.InstanceID)
	return n
}

// launch makes an instance known to the metadata service.
func (l *lab) launch(id string, address netip.Addr, userData []byte) *imdstest.Service {
	i := imdstest.Typical()
	i.ID, i.MAC, i.IPv4, i.UserData = id, machine.MAC(address).String(), address.String(), userData
	i.Hostname = nodeName(address)
	service := imdstest.New(i)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.instances[address] = service
	return service
}

// nodeName is what EC2 calls an instance.
func nodeName(address netip.Addr) string {
	return "ip-" + strings.ReplaceAll(address.String(), ".", "-") + ".eu-west-1.compute.internal"
}

// node is a machine that commands run on as root.
type node struct {
	*machine.Machine
	lab      *lab
	t        *testing.T
	metadata *imdstest.Service
}

// try runs a shell script as root.
func (n *node) try(script string, args ...any) (string, error) {
	if len(args) > 0 {
		script = fmt.Sprintf(script, args...)
	}
	result, err := n.Run(n.lab.ctx, "sudo sh -seu", strings.NewReader(script))
	if err == nil && result.Code != 0 {
		err = fmt.Errorf("%s\nexit code %d: %s%s", script, result.Code, result.Stdout, result.Stderr)
	}
	return strings.TrimSpace(result.Stdout), err
}

// sh is try for what must succeed.
func (n *node) sh(script string, args ...any) string {
	n.t.Helper()
	out, err := n.try(script, args...)
	require.NoError(n.t, err)
	return out
}

// await runs a script until it succeeds.
func (n *node) await(what, script string, args ...any) string {
	n.t.Helper()
	ctx, cancel := context.WithTimeoutCause(n.lab.ctx, n.lab.patience, errors.New("not within "+n.lab.patience.String()))
	defer cancel()
	for {
		out, err := n.try(script, args...)
		if err == nil {
			n.lab.step("%s: %s", n.InstanceID(), what)
			return out
		}
		select {
		case <-ctx.Done():
			journal, _ := n.try("systemctl list-jobs; systemctl --failed; journalctl --no-pager -b -u 'eksnode-*' -u kubelet -u containerd | tail -60; cat /var/log/cloud-init-output.log")
			require.NoError(n.t, errors.Join(context.Cause(ctx), err), "%s\n%s", what, journal)
		case <-time.After(tick):
		}
	}
}
