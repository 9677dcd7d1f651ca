// Package lab holds the common parts of tests on real machines: a lab of
// package machine with a base system and a key, machines that run scripts as
// root, the programs under test as `make` builds them, a mirror of a node's
// downloads, instance metadata and container images.
//
// Its functions take a *testing.T and fail the test instead of returning
// errors.
package lab

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/lifecycle"
)

// Kubelet is the Kubernetes version that tests provision.
var Kubelet = lifecycle.Kubernetes()

// Lab is an open lab.
type Lab struct {
	*machine.Lab
	Ctx context.Context
	// Root is the tree of the base system.
	Root string
	// Key is the SSH key that logs in to the machines, as User. An empty User is
	// Debian's default user.
	Key  machine.Key
	User string
	// Resolver is a file with the address of the lab's name server, the only one in its
	// network.
	Resolver string
}

// Open opens a lab until the test ends, at the latest until limit has passed,
// so that a hang becomes a failure with a location.
func Open(t testing.TB, limit time.Duration, kinds ...machine.Kind) *Lab {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	l := &Lab{Ctx: ctx}
	var err error
	l.Lab, l.Root, err = machine.Open(ctx, t.Output(), kinds...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	l.Key, err = machine.NewKey(Builder)
	require.NoError(t, err)
	l.Resolver = filepath.Join(l.Folder(), "resolv.conf")
	require.NoError(t, os.WriteFile(l.Resolver, []byte("nameserver "+l.HostAddress()+"\n"), 0o644))
	return l
}

// Resolving prepares a program that will run in the lab's network, with its name server.
func (l *Lab) Resolving(argv []string) *exec.Cmd {
	return l.Command(l.Ctx, "unshare", append([]string{"--mount", "--propagation", "private", "sh", "-ec",
		`mount --bind "$0" /etc/resolv.conf; exec "$@"`, l.Resolver}, argv...)...)
}

// Start boots a machine that the lab's key opens.
func (l *Lab) Start(t testing.TB, config machine.Config) *Node {
	t.Helper()
	begin := time.Now()
	config.AuthorizedKeys, config.Signer = []string{l.Key.Authorized}, l.Key.Signer
	config.User = cmp.Or(config.User, l.User)
	m, err := l.Lab.Start(l.Ctx, config)
	require.NoError(t, err)
	t.Logf("%s is up after %s", config.InstanceID, time.Since(begin).Round(10*time.Millisecond))
	return &Node{Machine: m, ctx: l.Ctx}
}

// Port returns an address of the lab that machines reach.
func (l *Lab) Port(port string) string { return net.JoinHostPort(l.HostAddress(), port) }

// Assets returns a mirror's folder with the node's programs.
func Assets(t testing.TB) mirror.Mirror {
	t.Helper()
	assets, err := mirror.Build(t.Context(), Kubelet, runtime.GOARCH, t.Output())
	require.NoError(t, err)
	return assets
}

// ServeMirror serves a mirror's folder at an address of the lab.
func (l *Lab) ServeMirror(t testing.TB, address, folder string, options mirror.Options) *mirror.Server {
	t.Helper()
	listener, err := l.Listen(l.Ctx, "tcp", address)
	require.NoError(t, err)
	return mirror.Serve(t, listener, folder, options)
}

var made sync.Map

// Built returns the path of a file that `make` builds. The file is up to date
// with the sources.
func Built(t testing.TB, target string) string {
	t.Helper()
	root, err := filepath.Abs(".")
	require.NoError(t, err)
	for !base.Exists(filepath.Join(root, "go.mod")) {
		require.NotEqual(t, "/", root, "the test runs outside of the module")
		root = filepath.Dir(root)
	}
	if _, done := made.Load(target); !done {
		// The lock excludes tests of other packages that run at the same time.
		testkit.Run(t, "flock", root, "make", "--silent", "-C", root, target)
		made.Store(target, true)
	}
	return filepath.Join(root, target)
}

// Eksnode returns the path of the command in its released form.
func Eksnode(t testing.TB) string {
	t.Helper()
	return Built(t, "bin/eksnode")
}

// Agent returns the path of the agent that the plugin contains for this
// machine's architecture.
func Agent(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "eksnode")
	testkit.Run(t, "sh", "-ec", `gzip -dc "$1" > "$2"; chmod 755 "$2"`, "sh",
		Built(t, "plugin/embedded/agents/eksnode-linux-"+runtime.GOARCH+".gz"), path)
	return path
}

// Build builds a template with packer, on a machine from a base system. The
// scrubbed machine is captured.
type Build struct {
	Kind machine.Kind
	// System is the base system of the machine.
	System System
	// Template is the template's folder; examples/local when empty. Its variables
	// are those of examples/local.
	Template string
	// Disk builds a disk of the base system with examples/disk, without a machine.
	Disk bool
	// Packer is the version of packer; the newest version in the harness when
	// empty.
	Packer string
	// Image is the file to make: .raw or .qcow2.
	Image string
	// Reports is the folder for the reports.
	Reports string
}

// Builder is the comment of the builder's public key. No image may contain it.
const Builder = "builder@eksnode.test"

// Run makes the image, in a lab of its own.
func (b Build) Run(t testing.TB) {
	t.Helper()
	begin := time.Now()
	step := func(format string, args ...any) {
		t.Logf("[%6.1f s] %s", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
	}
	plugin := Built(t, "bin/packer-plugin-eksnode")
	l := Open(t, time.Hour, b.Kind)
	defer func() { assert.NoError(t, l.Close()) }()
	l.Use(t, b.System)
	step("running packer plugins")
	packer := l.NewPacker(t, b.Packer, map[string]string{"github.com/eksnode/eksnode": plugin})
	kubelet := b.System.kubelet(t)
	assets, err := mirror.Build(l.Ctx, kubelet, "amd64", t.Output())
	require.NoError(t, err)
	server := l.ServeMirror(t, l.Port("8080"), assets.Folder, mirror.Options{})

	build := func(template string, own map[string]string) {
		args := []string{"build", "-color=false", "-force"}
		maps.Copy(own, map[string]string{
			"kubernetes_version": kubelet, "source_url": server.URL(), "allow_http": "true", "reports": b.Reports,
		})
		for name, value := range own {
			args = append(args, "-var", name+"="+value)
		}
		step("running packer build")
		packer.Run(t, append(args, cmp.Or(b.Template, filepath.Join(filepath.Dir(plugin), "../examples", template)))...)
	}
	if b.Disk {
		base := filepath.Join(t.TempDir(), "base.raw")
		step("making the cloud image")
		require.NoError(t, machine.MakeDisk(l.Ctx, l.Root, base))
		build("disk", map[string]string{"base": base, "image": b.Image})
		step("the image is built")
		return
	}
	builder := l.Start(t, machine.Config{Kind: b.Kind, Root: l.Root, InstanceID: "i-builder"})
	address, port, user := builder.SSH()
	build("local", map[string]string{"host": address, "port": fmt.Sprint(port), "user": user, "private_key": packer.Key})
	step("powering off and capturing %s", b.Image)
	builder.CaptureTo(t, b.Image)
	step("the image is captured")
}

// Packer is a packer in the lab's network, with plugins and settings of its own.
type Packer struct {
	// Folder is the working folder.
	Folder string
	// Key is the file with the private key of the lab.
	Key string
	// Environment has additional environment variables.
	Environment []string

	lab     *Lab
	program string
}

// NewPacker returns a packer of a version, the newest in the harness when empty, with
// plugins: the path of each, by its source address.
func (l *Lab) NewPacker(t testing.TB, version string, plugins map[string]string) *Packer {
	t.Helper()
	program, err := tools.Packer(l.Ctx, version, t.Output())
	require.NoError(t, err)
	p := &Packer{Folder: t.TempDir(), lab: l, program: program}
	p.Key = filepath.Join(p.Folder, "key")
	require.NoError(t, os.WriteFile(p.Key, l.Key.PEM, 0o600))
	for source, path := range plugins {
		p.Run(t, "plugins", "install", "--path", path, source)
	}
	return p
}

// Run runs a command of packer that must succeed.
func (p *Packer) Run(t testing.TB, args ...string) {
	t.Helper()
	cmd := p.lab.Resolving(append([]string{p.program}, args...))
	cmd.Env = append(append(os.Environ(), "PACKER_PLUGIN_PATH="+filepath.Join(p.Folder, "plugins"),
		"PACKER_CONFIG_DIR="+filepath.Join(p.Folder, "config"), "CHECKPOINT_DISABLE=1"), p.Environment...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = t.Output(), t.Output(), p.Folder
	require.NoError(t, cmd.Run())
}
