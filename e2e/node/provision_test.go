//go:build e2e

package node_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// TestProvision tests the life of one machine: planned, interrupted at each
// stage, finished, provisioned again, given bad assets, joined, scrubbed.
func TestProvision(t *testing.T) {
	t.Parallel()
	b := open(t)
	n := b.start(t, "i-provision")
	bare := n.tree(t)
	var planned map[string]bool
	t.Run("a dry run prints the plan and changes nothing", func(t *testing.T) { planned = testDryRun(t, b, n, bare) })
	testInterruptions(t, b, n)
	t.Run("every new file on the machine has a known origin", func(t *testing.T) { testAskedFor(t, n, bare, planned) })
	t.Run("the manifest matches the machine", func(t *testing.T) { testManifest(t, b, n) })
	t.Run("a second run changes nothing", func(t *testing.T) {
		before := n.tree(t)
		r := b.provision(t, n, b.mirror.URL()).succeeds(t)
		report, items := r.outcome(t)
		assert.Len(t, items, report.Totals.Items)
		assert.Contains(t, items, "manifest", "the test completed all stages")
		for item, status := range items {
			assert.Equal(t, plan.Unchanged, status, item)
		}
		n.unchanged(t, before)
		n.nothingLeft(t)
	})
	testAssets(t, b, n)
	testScrub(t, b, n)
}

// testDryRun returns the paths in the plan.
func testDryRun(t *testing.T, b *bench, n *node, bare testkit.Tree) map[string]bool {
	r := b.provision(t, n, b.mirror.URL(), "dry_run = true").succeeds(t)
	for _, line := range []string{
		"packages: would install apparmor ", "directories: would mkdir /etc/eks",
		"kubelet: would fetch /usr/bin/kubelet (kubelet " + kubelet + " from " + b.mirror.URL() + "/dl.k8s.io/",
		"units: would write /usr/lib/systemd/system/kubelet.service", "sysctls: would write /etc/sysctl.d/99-zz-eksnode.conf",
		"manifest: would write " + manifest.Path, "provision planned: ", "; nothing was changed",
	} {
		assert.Contains(t, r.out.String(), line)
	}
	n.unchanged(t, bare)
	n.nothingLeft(t)
	report, _ := r.outcome(t)
	assert.Equal(t, plan.DryRun, report.Result)
	planned := map[string]bool{}
	for _, item := range report.Plan {
		for _, action := range item.Actions {
			name, _, _ := strings.Cut(action.Target, " ") // the link's target decides
			planned[name] = true
		}
	}
	return planned
}

// bookkeeping matches paths that the installation of packages changes outside
// the packages' files.
var bookkeeping = regexp.MustCompile(`^. (` + strings.Join([]string{
	`/var/lib/(dpkg|apt|ucf|nfs|systemd/deb-systemd-helper-enabled)(/.*)?`, `/var/cache/(apt|debconf|ldconfig)(/.*)?`,
	`/etc/(alternatives|rc[0-6S]\.d|systemd/system/[a-z-]+\.target\.wants)(/.*)?`,
	`/etc/(passwd|group|shadow|gshadow|subuid|subgid)-?`, `/etc/ld\.so\.cache`, `/usr/s?bin/(ip6?|eb|arp)tables.*`,
	// Files that the packages' own scripts make: nfs-common's and apparmor's.
	`/etc/(idmapd|nfs)\.conf`, `/etc/default/nfs-common`, `/etc/apparmor\.d/.*`,
}, "|") + `)( \(|$)`)

// testAskedFor checks every new path on the machine: it must belong to a
// package, or be in the manifest, or be in the plan.
func testAskedFor(t *testing.T, n *node, bare testkit.Tree, planned map[string]bool) {
	known := map[string]bool{manifest.Path: true}
	know := func(name string) { // and all parent folders
		for ; name != "/"; name = path.Dir(name) {
			known[name] = true
		}
	}
	m := n.manifest(t)
	for _, file := range recorded(m) {
		know(file.Path)
	}
	for _, template := range m.Templates {
		know(template.Path)
	}
	for _, name := range n.Lines(t, "cat /var/lib/dpkg/info/*.list") {
		known[name] = true
		if strings.HasPrefix(name, "/lib/") || strings.HasPrefix(name, "/sbin/") || strings.HasPrefix(name, "/bin/") {
			known["/usr"+name] = true
		}
	}
	for _, change := range except(n.tree(t).Since(bare), bookkeeping) {
		name, added := strings.CutPrefix(change, "+ ")
		assert.True(t, added && (known[name] || planned[name]), "paths without a known origin: %s", change)
	}
}

// manifest reads the image's own manifest.
func (n *node) manifest(t *testing.T) *manifest.Manifest {
	t.Helper()
	m, err := manifest.Parse([]byte(n.Sh(t, "cat "+manifest.Path)))
	require.NoError(t, err)
	return m
}

func recorded(m *manifest.Manifest) []manifest.File {
	files := m.Files
	for _, asset := range m.Assets {
		files = append(files, asset.Files...)
	}
	return files
}

// testManifest compares the manifest with the output of other programs.
func testManifest(t *testing.T, b *bench, n *node) {
	m := n.manifest(t)
	files := recorded(m)
	assert.Greater(t, len(files), 20)
	for _, file := range files {
		if file.Link != "" {
			assert.Equal(t, file.Link, n.Sh(t, "readlink %s", file.Path))
			continue
		}
		want := fmt.Sprintf("%s %d %o 0:0", file.SHA256, file.Size, fs.FileMode(file.Mode))
		assert.Equal(t, want, n.Sh(t, `f=%s; echo "$(sha256sum $f | cut -d' ' -f1) $(stat -Lc '%%s %%a %%u:%%g' $f)"`, file.Path), file.Path)
	}
	for _, template := range m.Templates {
		assert.Equal(t, manifest.Sum([]byte(template.Content)), n.Sh(t, "sha256sum <%s | cut -d' ' -f1", template.Path), template.Path)
	}
	for _, p := range m.Packages {
		assert.Equal(t, p.Version, n.Sh(t, `dpkg-query -W -f '${Version}' %s`, p.Name))
	}
	for _, unit := range m.Units {
		assert.Equal(t, strings.HasPrefix(unit.Name, "eksnode-"), unit.Enabled, unit.Name)
		state := map[bool]string{true: "enabled", false: "disabled"}[unit.Enabled]
		assert.Equal(t, state, n.Sh(t, "systemctl is-enabled %s || true", unit.Name))
	}
	assert.Len(t, m.Assets, len(b.assets.Assets))
	for _, asset := range b.assets.Assets {
		place, err := mirror.Place(asset.URL)
		require.NoError(t, err)
		sum := sha256.Sum256([]byte(testkit.Content(t, filepath.Join(b.assets.Folder, place))))
		text, err := json.Marshal(m.Assets)
		require.NoError(t, err)
		assert.Contains(t, string(text), hex.EncodeToString(sum[:]), place)
	}
	versions := map[string]string{"kubelet": "kubelet --version", "cni-plugins": "/opt/cni/bin/loopback 2>&1",
		"ecr-credential-provider": "/etc/eks/image-credential-provider/ecr-credential-provider --version 2>&1"}
	for id, ask := range versions {
		asset, found := m.Asset(id)
		require.True(t, found, id)
		assert.Contains(t, n.Sh(t, ask), "v"+asset.Version)
	}
	assert.Equal(t, kubelet, m.KubernetesVersion)
	command := n.Sh(t, "eksnode --version")
	assert.True(t, strings.HasSuffix(command, " "+m.Tool), "%s is not %s", command, m.Tool)
	assert.Equal(t, "0755", fmt.Sprintf("%04o", fs.FileMode(find(t, files, path.Join("/usr/bin", "eksnode")).Mode)))
}

func find(t *testing.T, files []manifest.File, name string) manifest.File {
	t.Helper()
	for _, file := range files {
		if file.Path == name {
			return file
		}
	}
	require.Fail(t, "the manifest does not list "+name)
	return manifest.File{}
}

// fault is a row of testdata/faults.yaml.
type fault struct {
	Name, Fault, Undo, Field string
	As                       account
	Words                    []string
}

func faults(t *testing.T) (all map[string][]fault) {
	t.Helper()
	require.NoError(t, yaml.UnmarshalStrict([]byte(testkit.Content(t, "testdata/faults.yaml")), &all))
	return all
}

// TestRefusals gives a bare machine every fault that keeps it from becoming a
// node. Each error must name the fault and the remedy, and the machine must
// stay unchanged.
func TestRefusals(t *testing.T) {
	t.Parallel()
	b := open(t)
	n := b.start(t, "i-refuse")
	for _, c := range faults(t)["refusals"] {
		t.Run(c.Name, func(t *testing.T) {
			n.faulty(t, c.Fault, c.Undo)
			before := n.tree(t)
			// The dry run reports the same fault that stops the real run before its
			// first change.
			b.provisionAs(t, n, c.As, b.mirror.URL(), c.Field, "dry_run = true").fails(t, c.Words...)
			b.provisionAs(t, n, c.As, b.mirror.URL(), c.Field).fails(t, c.Words...)
			n.unchanged(t, before)
			n.nothingLeft(t)
		})
	}
	testPackages(t, b, n)
}

// testPackages gives the package manager every bad source. Only the downloaded
// package lists may change.
func testPackages(t *testing.T, b *bench, n *node) {
	for _, c := range faults(t)["packages"] {
		t.Run(c.Name, func(t *testing.T) {
			n.faulty(t, c.Fault, c.Undo)
			before := n.tree(t)
			b.provision(t, n, b.mirror.URL(), c.Field).fails(t, c.Words...)
			require.Empty(t, except(n.tree(t).Since(before), bookkeeping))
			n.nothingLeft(t)
		})
	}
}

// kubelet is the version that the tests provision.
var kubelet = lab.Kubelet

const (
	// limit bounds each test and patience bounds each wait, so that a hang becomes
	// a failure with a location.
	limit    = 8 * time.Minute
	patience = 2 * time.Minute

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
	b.packer(t, "plugins", "install", "--path", plugin, "github.com/eksnode/eksnode").succeeds(t)
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
