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
func testDryRun(t *testing.T, b *bench, n *node, bare lab.Tree) map[string]bool {
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
func testAskedFor(t *testing.T, n *node, bare lab.Tree, planned map[string]bool) {
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

// TestRefusals gives a bare machine every fault that keeps it from becoming a
// node. Each error must name the fault and the remedy, and the machine must
// stay unchanged.
func TestRefusals(t *testing.T) {
	t.Parallel()
	b := open(t)
	n := b.start(t, "i-refuse")
	dry := "dry_run = true"
	for _, c := range []struct {
		name  string
		fault string // a script
		undo  string
		as    account
		field string
		words []string
	}{
		{name: "an unknown distribution",
			fault: "echo 'ID=plan9\nPRETTY_NAME=\"Plan 9\"' > /run/os; mount --bind /run/os /usr/lib/os-release", undo: "umount /usr/lib/os-release",
			words: []string{`Plan 9 (ID="plan9" VERSION_ID="") is not known; known are `, ", debian", "set distro to that name"}},
		{name: "a distribution without systemd",
			fault: "echo ID=alpine > /run/os; mount --bind /run/os /usr/lib/os-release", undo: "umount /usr/lib/os-release",
			words: []string{`ID="alpine"`, "Alpine starts with OpenRC, and the kubelet needs systemd"}},
		{name: "a version that is not supported",
			fault: "sed 's/13/8/' /usr/lib/os-release > /run/os; mount --bind /run/os /usr/lib/os-release", undo: "umount /usr/lib/os-release",
			words: []string{`VERSION_ID="8") is not supported; supported are the versions 12, 13`, `(distro "debian")`}},
		{name: "no os-release", fault: "echo > /run/os; mount --bind /run/os /usr/lib/os-release", undo: "umount /usr/lib/os-release",
			words: []string{"the machine has no /etc/os-release (or it is empty)"}},
		{name: "an unsupported architecture",
			fault: "printf '#!/bin/sh\\necho riscv64\\n' > /usr/local/bin/uname; chmod +x /usr/local/bin/uname", undo: "rm /usr/local/bin/uname",
			words: []string{`the machine's architecture is "riscv64"; supported are x86_64 (amd64) and aarch64 (arm64)`}},
		{name: "an architecture that differs from uname's",
			fault: "printf '#!/bin/sh\\necho aarch64\\n' > /usr/local/bin/uname; chmod +x /usr/local/bin/uname", undo: "rm /usr/local/bin/uname",
			words: []string{"uname -m on the machine says aarch64, but its /bin/sh is a program for another architecture", "the agent for linux/arm64 would not run there"}},
		{name: "no sudo", fault: "mv /usr/bin/sudo /usr/bin/sudo.away", undo: "mv /usr/bin/sudo.away /usr/bin/sudo",
			words: []string{"the user admin (uid 1000) is not root and `sudo -n -- env true` failed", "sudo: not found; install its program, connect as root"}},
		{name: "a user without sudo",
			fault: "useradd -m plain; cp -r /root/.ssh /home/plain; chown -R plain: /home/plain/.ssh", undo: "userdel -r plain 2>/dev/null", as: account{user: "plain"},
			words: []string{"the user plain (uid 1001) is not root and `sudo -n -- env true` failed", "a password is required", "NOPASSWD", "sudo_command"}},
		{name: "a sudo that requires a terminal", fault: "echo 'Defaults requiretty' > /etc/sudoers.d/99-test", undo: "rm /etc/sudoers.d/99-test",
			words: []string{"`sudo -n -- env true` failed", "you must have a tty to run sudo", "`Defaults:admin !requiretty`"}},
		{name: "no communicator", as: account{none: true},
			words: []string{`the communicator answered success without running anything, as communicator = "none" does`, `communicator = "ssh"`}},
		{name: "a temporary folder with noexec", fault: "mount -t tmpfs -o noexec,mode=1777 tmpfs /tmp", undo: "umount /tmp",
			words: []string{"programs in /tmp on the machine may not be run", "mounted noexec", "set remote_folder to another folder, such as /home/admin"}},
		{name: "a temporary folder that is full", fault: "mount -t tmpfs -o size=1m,mode=1777 tmpfs /tmp", undo: "umount /tmp",
			words: []string{"no space left in /tmp on the machine", "set remote_folder to another folder"}},
		{name: "a temporary folder that is read-only", fault: "mount -t tmpfs -o ro,mode=1777 tmpfs /tmp", undo: "umount /tmp",
			words: []string{"/tmp", "read-only", "set remote_folder"}},
		{name: "a remote folder that only root may write", field: `remote_folder = "/opt"`,
			words: []string{"the folder /opt on the machine is not writable for the user admin", "set remote_folder to one that is, such as /home/admin"}},
		{name: "a missing remote folder", field: `remote_folder = "/nowhere"`,
			words: []string{"the folder /nowhere does not exist on the machine", "set remote_folder"}},
		{name: "no systemd", fault: jail + "\nmv /sbin/init /sbin/init.away", undo: "mv /sbin/init.away /sbin/init; systemctl stop jail.service", as: account{user: "root", port: 2222},
			words: []string{"this machine does not start with systemd (/sbin/init is missing or another program), but the kubelet needs systemd"}},
		{name: "a disk that is too small", fault: "mount -t tmpfs -o size=8m tmpfs /opt", undo: "umount /opt",
			words: []string{"/opt has 8.4 MB free and needs 170.0 MB", "give the machine a larger disk"}},
		{name: "a disk that is read-only", fault: "mount --bind /opt /opt; mount -o remount,bind,ro /opt", undo: "umount /opt",
			words: []string{"/opt is on a read-only file system; remount it for writing"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n.faulty(t, c.fault, c.undo)
			before := n.tree(t)
			// The dry run reports the same fault that stops the real run before its
			// first change.
			b.provisionAs(t, n, c.as, b.mirror.URL(), c.field, dry).fails(t, c.words...)
			b.provisionAs(t, n, c.as, b.mirror.URL(), c.field).fails(t, c.words...)
			n.unchanged(t, before)
			n.nothingLeft(t)
		})
	}
	testPackages(t, b, n)
}

// testPackages gives the package manager every bad source. Only the downloaded
// package lists may change.
func testPackages(t *testing.T, b *bench, n *node) {
	for _, c := range []struct {
		name        string
		fault, undo string
		field       string
		words       []string
	}{
		{name: "a repository that does not listen",
			fault: "echo 'deb http://10.77.0.1:9/debian trixie main' > /run/sources; mount --bind /run/sources /etc/apt/sources.list", undo: "umount /etc/apt/sources.list",
			words: []string{"the repository http://10.77.0.1:9/debian/dists/trixie/ could not be reached; check the machine's network, proxy and repositories", "apt-get update"}},
		{name: "a package that does not exist", field: `packages = ["no-such-package"]`,
			words: []string{"installing ", "no repository of this machine has the package no-such-package; check its name and the machine's repositories"}},
		{name: "a disk that is full of downloads",
			fault: "mount -t tmpfs -o size=1m,mode=755 tmpfs /var/cache/apt/archives; mkdir /var/cache/apt/archives/partial", undo: "umount /var/cache/apt/archives",
			words: []string{"the disk is full at /var/cache/apt/archives", "free some space or enlarge it"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n.faulty(t, c.fault, c.undo)
			before := n.tree(t)
			b.provision(t, n, b.mirror.URL(), c.field).fails(t, c.words...)
			require.Empty(t, except(n.tree(t).Since(before), bookkeeping))
			n.nothingLeft(t)
		})
	}
}

// jail is a container with only sshd in it.
const jail = `systemd-run -q --unit=jail unshare --fork --pid --mount --mount-proc sh -c '
mount -t tmpfs tmpfs /run && mkdir /run/sshd && exec /usr/sbin/sshd -D -p 2222'
until ss -Htln sport = :2222 | grep -q .; do test -n "$(systemctl is-active jail)"; done`

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
