// Package lab holds the common parts of tests on real machines: a lab of
// package machine with a base system and a key, machines that run scripts as
// root, the programs under test as `make` builds them, a mirror of a node's
// downloads, instance metadata, container images, and the comparison of two
// trees.
//
// Its functions take a *testing.T and fail the test instead of returning
// errors.
package lab

import (
	"cmp"
	"compress/gzip"
	"context"
	"io"
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

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/internal/lifecycle"
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
}

// Open opens a lab until the test ends, at the latest until limit has passed,
// so that a hang becomes a failure with a location.
func Open(t *testing.T, limit time.Duration, kinds ...machine.Kind) *Lab {
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
	return l
}

// Start boots a machine that the lab's key opens.
func (l *Lab) Start(t *testing.T, config machine.Config) *Node {
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
func Assets(t *testing.T) mirror.Mirror {
	t.Helper()
	assets, err := mirror.Build(t.Context(), Kubelet, runtime.GOARCH, t.Output())
	require.NoError(t, err)
	return assets
}

// ServeMirror serves a mirror's folder at an address of the lab.
func (l *Lab) ServeMirror(t *testing.T, address, folder string, options mirror.Options) *mirror.Server {
	t.Helper()
	listener, err := l.Listen(l.Ctx, "tcp", address)
	require.NoError(t, err)
	server, err := mirror.ServeOn(l.Ctx, listener, folder, options)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	return server
}

// made has the targets that this process has made.
var made sync.Map

// Built returns the path of a file that `make` builds. The file is up to date
// with the sources.
func Built(t *testing.T, target string) string {
	t.Helper()
	root, err := filepath.Abs(".")
	require.NoError(t, err)
	for !exists(filepath.Join(root, "go.mod")) {
		require.NotEqual(t, "/", root, "the test runs outside of the module")
		root = filepath.Dir(root)
	}
	if _, done := made.Load(target); !done {
		// The lock excludes tests of other packages that run at the same time.
		out, err := exec.CommandContext(t.Context(), "flock", root, "make", "--silent", "-C", root, target).CombinedOutput()
		require.NoError(t, err, "%s", out)
		made.Store(target, true)
	}
	return filepath.Join(root, target)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Eksnode returns the path of the command in its released form.
func Eksnode(t *testing.T) string {
	t.Helper()
	return Built(t, "bin/eksnode")
}

// Agent returns the path of the agent that the plugin contains for this
// machine's architecture.
func Agent(t *testing.T) string {
	t.Helper()
	packed, err := os.Open(Built(t, "plugin/embedded/agents/eksnode-linux-"+runtime.GOARCH+".gz"))
	require.NoError(t, err)
	defer packed.Close()
	content, err := gzip.NewReader(packed)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "eksnode")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	defer file.Close()
	_, err = io.Copy(file, content)
	require.NoError(t, err)
	return path
}
