//go:build e2e

package node_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
)

// kubelet is the version that the tests provision.
var kubelet = lab.Kubelet

const (
	// limit bounds each test and patience bounds each wait, so that a hang becomes
	// a failure with a location.
	limit    = 8 * time.Minute
	patience = 2 * time.Minute

	newer = "1.15.0" // versions of packer
	older = "1.12.0"

	// slowly is a bandwidth in bytes per second and connection. It is enough for
	// everything but the programs: a kubelet's download takes long enough for a
	// test to interrupt it.
	slowly = 1 << 20
)

// bench is a lab with a mirror of the node's programs, and with packer and its
// plugins.
type bench struct {
	*lab.Lab
	folder  string // keys, templates, reports
	assets  mirror.Mirror
	mirror  *mirror.Server
	slow    *mirror.Server
	plugins string
}

func open(t *testing.T) *bench {
	t.Helper()
	plugin := lab.Built(t, "bin/packer-plugin-eksnode") // the plugin first: it changes most often
	b := &bench{Lab: lab.Open(t, limit, machine.Nspawn), folder: t.TempDir(), assets: lab.Assets(t)}
	require.NoError(t, os.WriteFile(b.keyFile(), b.Key.PEM, 0o600))
	b.mirror = b.ServeMirror(t, b.Port("8080"), b.assets.Folder, mirror.Options{})
	b.slow = b.ServeMirror(t, b.Port("8081"), b.assets.Folder, mirror.Options{BytesPerSecond: slowly})
	b.plugins = filepath.Join(b.folder, "plugins")
	b.packer(t, newer, "plugins", "install", "--path", plugin, "github.com/eksnode/eksnode").succeeds(t)
	return b
}

func (b *bench) keyFile() string { return filepath.Join(b.folder, "key") }

// place returns an asset's path on the mirror, for faults.
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
