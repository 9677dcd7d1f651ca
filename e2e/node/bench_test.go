//go:build e2e

package node_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

const (
	// limit bounds each test and patience each thing that is awaited, so that a
	// hang becomes a failure that says where.
	limit    = 8 * time.Minute
	patience = 2 * time.Minute
	tick     = 50 * time.Millisecond

	kubelet = "1.34.4"
	newer   = "1.15.0" // versions of packer
	older   = "1.12.0"

	// slowly, in bytes per second and connection, is fast enough for everything
	// but the programs themselves: a kubelet takes long enough for a test to do
	// something to it.
	slowly = 1 << 20
)

// bench is a lab with a mirror of the node's programs, and what packer needs.
type bench struct {
	*machine.Lab
	ctx     context.Context
	root    string // the base system
	key     machine.Key
	folder  string // keys, templates, reports
	assets  mirror.Mirror
	mirror  *mirror.Server
	slow    *mirror.Server
	plugins string
}

// logWriter hands the harness's messages to the test's log.
type logWriter struct{ t *testing.T }

func (w logWriter) Write(text []byte) (int, error) {
	w.t.Logf("%s", strings.TrimRight(string(text), "\n"))
	return len(text), nil
}

func open(t *testing.T) *bench {
	t.Helper()
	// The plugin first: it is what changes most.
	plugin, err := buildPlugin()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	b := &bench{ctx: ctx, folder: t.TempDir()}
	b.Lab, b.root, err = machine.Open(ctx, logWriter{t}, machine.Nspawn)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.Close()) })
	b.key, err = machine.NewKey("builder@eksnode.test")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(b.keyFile(), b.key.PEM, 0o600))
	b.assets, err = mirror.Build(ctx, mirror.Versions{Kubelet: kubelet}, runtime.GOARCH, logWriter{t})
	require.NoError(t, err)
	b.mirror = b.serve(t, "8080", mirror.Options{})
	b.slow = b.serve(t, "8081", mirror.Options{BytesPerSecond: slowly})
	b.plugins = filepath.Join(b.folder, "plugins")
	b.packer(t, newer, "plugins", "install", "--path", plugin, "github.com/eksnode/eksnode").succeeds(t)
	return b
}

func (b *bench) keyFile() string { return filepath.Join(b.folder, "key") }

// serve serves the node's programs at a port of the lab.
func (b *bench) serve(t *testing.T, port string, options mirror.Options) *mirror.Server {
	t.Helper()
	return b.serveAt(t, b.HostAddress()+":"+port, options)
}

// serveAt serves them at an address of the lab.
func (b *bench) serveAt(t *testing.T, address string, options mirror.Options) *mirror.Server {
	t.Helper()
	listener, err := b.Listen(b.ctx, "tcp", address)
	require.NoError(t, err)
	server, err := mirror.ServeOn(b.ctx, listener, b.assets.Folder, options)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	return server
}

// place is where the mirror has an asset, for its faults.
func (b *bench) place(t *testing.T, part string) string {
	t.Helper()
	for _, asset := range b.assets.Assets {
		if place, err := mirror.Place(asset.URL); err == nil && strings.Contains(place, part) {
			return "/" + place
		}
	}
	require.Fail(t, "the mirror has no "+part)
	return ""
}

// credentialProvider is the version that the harness builds; see package tools
// for why it is not the newest.
func credentialProvider(t *testing.T) string {
	t.Helper()
	_, version, err := tools.Find(tools.NameCredentialProvider, "")
	require.NoError(t, err)
	return version
}

// await looks at a condition until it holds.
func await(t *testing.T, what string, within time.Duration, condition func() bool) {
	t.Helper()
	begin := time.Now()
	require.Eventually(t, condition, within, tick, what)
	t.Logf("awaited %s: %s", what, time.Since(begin).Round(10*time.Millisecond))
}
