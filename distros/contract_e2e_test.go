//go:build e2e

package distros

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/livetest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
)

// Debian's builds of every package manager run on a copy of this machine, with a
// repository that the tests build. All must behave the same.

// pkg is a package to build. Its only file is /opt/NAME.
type pkg struct{ name, version, requires, provides, conflicts, recommends string }

// workshop builds packages for one package manager and publishes them.
type workshop struct {
	pm PackageManager
	// impatient is pm without waiting for a lock.
	impatient PackageManager
	// build adds a package to the repository. publish indexes the repository and
	// makes it the machine's only one, at address or in its folder. With signed,
	// the machine requires signatures.
	build   func(t *testing.T, h *host.Host, p pkg)
	publish func(t *testing.T, h *host.Host, address string, signed bool)
	// upgrade upgrades all packages, as an administrator would.
	upgrade []string
	// release is the suffix of built versions, such as -1. lock takes the lock
	// that another package manager would hold; nil if the tool always waits.
	release string
	lock    func(t *testing.T) (release func())
	// cache is the folder of downloads, and folder that of the repository.
	cache, folder string
	// unsigned is the message about an unsigned repository or package.
	unsigned string
	// sign signs the repository with one of two keys. The machine trusts the
	// first. With spoil, the signed data changes afterwards. nil if a separate
	// test does that.
	sign func(t *testing.T, h *host.Host, key signer, spoil bool)
	// additional signs the repository, removes it from the machine's configuration, and
	// returns its text.
	additional func(t *testing.T, h *host.Host, key signer) string
}

func (w workshop) versions(t *testing.T, h *host.Host, names ...string) map[string]string {
	t.Helper()
	have, err := w.pm.Installed(t.Context(), h, names)
	require.NoError(t, err)
	return have
}

// contract checks the behaviour that every package manager must have.
func contract(t *testing.T, packages []string, open func(t *testing.T, h *host.Host) workshop) {
	if os.Getenv("EKSNODE_LIVETEST") == "" {
		require.NoError(t, base.Install(t.Context(), os.Stderr, packages...))
	}
	contractOn(t, "/", open)
}

// contractOn is contract on a copy of another system's root, which has the
// packages.
func contractOn(t *testing.T, root string, open func(t *testing.T, h *host.Host) workshop) {
	livetest.RunOn(t, root, func(t *testing.T, h *host.Host) {
		w := open(t, h)
		r := func(version string) string { return version + w.release }
		for _, p := range []pkg{
			{name: "eksnode-base", version: "1.2", provides: "eksnode-virtual"},
			{name: "eksnode-service", version: "4.5", requires: "eksnode-base", recommends: "eksnode-unwanted"},
			{name: "eksnode-unwanted", version: "1"},
			{name: "eksnode-rival", version: "1", conflicts: "eksnode-base"},
			{name: "eksnode-other", version: "1"},
		} {
			w.build(t, h, p)
		}
		w.publish(t, h, "", false)
		names := []string{"eksnode-base", "eksnode-service", "eksnode-unwanted", "eksnode-virtual"}
		assert.Empty(t, w.versions(t, h, names...))
		require.NoError(t, w.pm.Refresh(t.Context(), h))
		require.NoError(t, w.pm.Install(t.Context(), h, []string{"eksnode-service"}))
		assert.Equal(t, map[string]string{"eksnode-base": r("1.2"), "eksnode-service": r("4.5"), "eksnode-virtual": r("1.2")}, w.versions(t, h, names...))
		require.NoError(t, w.pm.Install(t.Context(), h, []string{"eksnode-service"}), "a second installation must do nothing")

		w.holds(t, h)
		w.refuses(t, h)
		w.cleans(t, h)
		w.trusts(t, h)
		w.kernels(t, h)
		w.drivers(t, h)
		w.proxied(t, h)
		w.extends(t, h)
	})
}

// proxied checks that the environment names the proxy of downloads, without any file.
func (w workshop) proxied(t *testing.T, h *host.Host) {
	t.Helper()
	var served atomic.Int32
	files := http.FileServer(http.Dir(w.folder))
	proxy := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		if r.URL.Host == "packages.example" {
			served.Add(1)
		}
		files.ServeHTTP(to, r)
	}))
	defer proxy.Close()
	w.publish(t, h, "http://packages.example", false)
	h = h.With("http_proxy="+proxy.URL, "HTTP_PROXY="+proxy.URL, "no_proxy=localhost")
	require.NoError(t, w.pm.Refresh(t.Context(), h))
	require.NoError(t, w.pm.Install(t.Context(), h, []string{"eksnode-unwanted"}))
	assert.Positive(t, served.Load())
	require.NoError(t, w.pm.Remove(t.Context(), h, []string{"eksnode-unwanted"}))
}

// extends checks that an additional repository is read with its key, and refused with
// another.
func (w workshop) extends(t *testing.T, h *host.Host) {
	t.Helper()
	right, wrong := newSigner(t, h, "right"), newSigner(t, h, "wrong")
	form, text := w.pm.RepositoryForm(), w.additional(t, h, right)
	require.NoError(t, form.Check(text, true))
	require.Empty(t, form.Unverified(form.Text("extra", text, true)))
	file, keyFile := form.Named("extra")
	install := func(key signer) error {
		armored := testkit.Content(t, key.public)
		for name, content := range map[string]string{keyFile: armored, file: form.Text("extra", text, true)} {
			require.NoError(t, h.Files.MkdirAll(filepath.Dir(name), 0o755))
			require.NoError(t, h.Files.WriteFile(name, []byte(content), host.Attributes{Mode: 0o644}))
		}
		if len(form.Trust) > 0 {
			run(t, h, append(slices.Clone(form.Trust), keyFile)...)
		}
		if form.Conf != "" {
			conf := testkit.Content(t, form.Conf)
			require.NoError(t, os.WriteFile(form.Conf, append([]byte(conf), form.Line+"\n"...), 0o644))
		}
		if err := w.pm.Refresh(t.Context(), h); err != nil {
			return err
		}
		return w.pm.Install(t.Context(), h, []string{"eksnode-unwanted"})
	}
	require.Error(t, install(wrong), "signed by another")
	assert.Empty(t, w.versions(t, h, "eksnode-unwanted"))
	require.NoError(t, install(right))
	assert.NotEmpty(t, w.versions(t, h, "eksnode-unwanted"))
}

// drivers checks that the lines of NVIDIA's driver in the repositories are known.
func (w workshop) drivers(t *testing.T, h *host.Host) {
	t.Helper()
	driver, known := map[string]Driver{
		"apt": nvidiaOfDebian(), "dnf": nvidiaOfRedHat(nvidiaStream), "pacman": nvidiaOfArch()}[w.pm.Name()]
	if !known {
		return
	}
	w.build(t, h, pkg{name: driver.Open[0], version: "595.71.05"})
	w.publish(t, h, "", false)
	require.NoError(t, w.pm.Refresh(t.Context(), h))
	lines, err := driver.Lines(t.Context(), h, true, "linux", w.pm)
	require.NoError(t, err)
	assert.Equal(t, []string{"595"}, lines)
}

// kernels checks that the packages of all kernels but one are found and removed, and that
// the kernels of the repositories are known. yum and Flatcar do not choose kernels.
func (w workshop) kernels(t *testing.T, h *host.Host) {
	t.Helper()
	k := w.pm.Kernels()
	if len(k.Offered) == 0 {
		return
	}
	chosen, packages := "kernel6.12", []pkg{
		{name: "kernel", version: "6.1"}, {name: "kernel-modules", version: "6.1"},
		{name: "kernel6.12", version: "6.12"}, {name: "kernel6.12-modules", version: "6.12"},
		{name: "kernel-uek", version: "5.15"}, {name: "kernel-uek-modules-core", version: "5.15"},
		{name: "kernel-tools", version: "6.1"}, {name: "kernel-headers", version: "6.1"},
	}
	switch w.pm.Name() {
	case "apt":
		chosen, packages = "linux-image-cloud-amd64", []pkg{{name: "linux-image-cloud-amd64", version: "6.1", requires: "linux-image-6.1-cloud-amd64"},
			{name: "linux-image-6.1-cloud-amd64", version: "6.1"}, {name: "linux-image-amd64", version: "6.1", requires: "linux-image-6.1-amd64"},
			{name: "linux-image-6.1-amd64", version: "6.1"},
			{name: "linux-modules-nvidia-580-cloud-amd64", version: "6.1", requires: "linux-modules-nvidia-580-6.1-cloud-amd64"},
			{name: "linux-modules-nvidia-580-6.1-cloud-amd64", version: "6.1"},
			{name: "linux-modules-nvidia-580-6.1-amd64", version: "6.1"},
			{name: "linux-headers-6.1-amd64", version: "6.1"}}
	case "pacman":
		chosen, packages = "linux-lts", []pkg{{name: "linux", version: "6.18"}, {name: "linux-lts", version: "6.12"}, {name: "linux-headers", version: "6.18"}}
	}
	var names []string
	for _, p := range packages {
		w.build(t, h, p)
		names = append(names, p.name)
	}
	w.publish(t, h, "", false)
	require.NoError(t, w.pm.Refresh(t.Context(), h))
	offered, err := k.Choices(t.Context(), h)
	require.NoError(t, err)
	require.Contains(t, offered, chosen)
	require.NotContains(t, offered, names[len(names)-1])
	require.NoError(t, w.pm.Install(t.Context(), h, names))
	others, err := k.Others(t.Context(), h, chosen)
	require.NoError(t, err)
	require.NotEmpty(t, others)
	require.NoError(t, w.pm.Remove(t.Context(), h, others))
	others, err = k.Others(t.Context(), h, chosen)
	require.NoError(t, err)
	require.Empty(t, others)
	var left []string
	for _, p := range packages {
		if w.versions(t, h, p.name)[p.name] != "" {
			left = append(left, p.name)
		}
	}
	want := map[string][]string{
		"linux-image-cloud-amd64": {"linux-image-cloud-amd64", "linux-image-6.1-cloud-amd64",
			"linux-modules-nvidia-580-cloud-amd64", "linux-modules-nvidia-580-6.1-cloud-amd64", "linux-headers-6.1-amd64"},
		"linux-lts":  {"linux-lts", "linux-headers"},
		"kernel6.12": {"kernel6.12", "kernel6.12-modules", "kernel-tools", "kernel-headers"},
	}[chosen]
	require.Equal(t, want, left)
}

// holds checks that a held package keeps its version when the machine is upgraded.
func (w workshop) holds(t *testing.T, h *host.Host) {
	t.Helper()
	held, err := w.pm.Held(h, []string{"eksnode-base", "eksnode-service"})
	require.NoError(t, err)
	assert.Empty(t, held)
	require.NoError(t, w.pm.Hold(t.Context(), h, []string{"eksnode-base"}))
	require.NoError(t, w.pm.Hold(t.Context(), h, []string{"eksnode-base"}), "a second Hold must do nothing")
	held, err = w.pm.Held(h, []string{"eksnode-base", "eksnode-service"})
	require.NoError(t, err)
	assert.Equal(t, []string{"eksnode-base"}, held)

	w.build(t, h, pkg{name: "eksnode-base", version: "1.3", provides: "eksnode-virtual"})
	w.build(t, h, pkg{name: "eksnode-service", version: "4.6", requires: "eksnode-base"})
	w.publish(t, h, "", false)
	require.NoError(t, w.pm.Refresh(t.Context(), h))
	run(t, h, w.upgrade...)
	assert.Equal(t, map[string]string{"eksnode-base": "1.2" + w.release, "eksnode-service": "4.6" + w.release},
		w.versions(t, h, "eksnode-base", "eksnode-service"), "only the package that is not held may be upgraded")

	pinned, err := w.pm.Pinned("eksnode-base", "1.3"+w.release)
	if err != nil {
		require.ErrorContains(t, err, "a repository has only the newest version")
		pinned = "eksnode-base"
	}
	require.NoError(t, w.pm.Install(t.Context(), h, []string{pinned}), "Install must change held packages")
	assert.Equal(t, "1.3"+w.release, w.versions(t, h, "eksnode-base")["eksnode-base"])
}

// refuses checks that an impossible installation fails with the reason, and changes
// nothing.
func (w workshop) refuses(t *testing.T, h *host.Host) {
	t.Helper()
	err := w.pm.Install(t.Context(), h, []string{"eksnode-unwanted", "eksnode-absent"})
	require.ErrorContains(t, err, "installing packages: no repository of this machine has the package eksnode-absent; check its name and the machine's repositories: ")
	assert.Empty(t, w.versions(t, h, "eksnode-unwanted"), "no package may be installed if one is missing")

	if pinned, err := w.pm.Pinned("eksnode-unwanted", "9.9"+w.release); err == nil {
		require.ErrorContains(t, w.pm.Install(t.Context(), h, []string{pinned}), "installing packages: no repository of this machine has the ")
	}

	err = w.pm.Install(t.Context(), h, []string{"eksnode-rival"})
	require.ErrorContains(t, err, "installing packages: packages conflict: ")
	require.ErrorContains(t, err, "eksnode-rival")
	assert.Len(t, w.versions(t, h, "eksnode-base", "eksnode-rival"), 1)

	if w.lock != nil {
		release := w.lock(t)
		require.ErrorContains(t, w.impatient.Install(t.Context(), h, []string{"eksnode-unwanted"}), "installing packages: another package manager is still running: ")
		release()
	}

	require.NoError(t, w.pm.Remove(t.Context(), h, []string{"eksnode-service"}))
	assert.Empty(t, w.versions(t, h, "eksnode-service"))
	require.NoError(t, w.pm.Install(t.Context(), h, []string{"eksnode-other"})) // zypper fails without any package
	require.NoError(t, w.pm.Remove(t.Context(), h, []string{"eksnode-base"}))
	assert.Empty(t, w.versions(t, h, "eksnode-base"), "Remove must remove held packages")
}

func (w workshop) cleans(t *testing.T, h *host.Host) {
	t.Helper()
	require.NoError(t, w.pm.Clean(t.Context(), h))
	require.NoError(t, filepath.WalkDir(w.cache, func(name string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			for _, kind := range []string{".rpm", ".deb", ".pkg.tar.gz"} {
				assert.False(t, strings.HasSuffix(name, kind), name)
			}
		}
		return nil
	}))
}

// trusts checks that unsigned packages are refused, and that the error names an
// unreachable repository.
func (w workshop) trusts(t *testing.T, h *host.Host) {
	t.Helper()
	w.publish(t, h, "", true)
	err := w.pm.Refresh(t.Context(), h)
	if err == nil {
		err = w.pm.Install(t.Context(), h, []string{"eksnode-unwanted"})
	}
	require.ErrorContains(t, err, w.unsigned)
	assert.Empty(t, w.versions(t, h, "eksnode-unwanted"))
	if w.sign != nil {
		w.verifies(t, h)
	}

	w.publish(t, h, "http://127.0.0.1:1", false)
	err = w.pm.Refresh(t.Context(), h)
	require.ErrorContains(t, err, "could not be reached; check the machine's network, proxy and repositories: ")
}

// verifies checks that a signature of an untrusted key, or of other data, is
// refused, and that the right signature is accepted.
func (w workshop) verifies(t *testing.T, h *host.Host) {
	t.Helper()
	trusted, other := newSigner(t, h, "trusted"), newSigner(t, h, "other")
	attempt := func() error {
		if err := w.pm.Refresh(t.Context(), h); err != nil {
			return err
		}
		return w.pm.Install(t.Context(), h, []string{"eksnode-unwanted"})
	}
	w.sign(t, h, trusted, false) // the machine learns its key
	w.sign(t, h, other, false)
	require.ErrorContains(t, attempt(), w.unsigned, "signed by another")
	w.sign(t, h, trusted, true)
	require.ErrorContains(t, attempt(), w.unsigned, "changed after it was signed")
	assert.Empty(t, w.versions(t, h, "eksnode-unwanted"))
	w.sign(t, h, trusted, false)
	require.NoError(t, attempt())
	assert.NotEmpty(t, w.versions(t, h, "eksnode-unwanted"))
	require.NoError(t, w.pm.Remove(t.Context(), h, []string{"eksnode-unwanted"}))
}

func TestAptMeetsTheContract(t *testing.T) {
	contract(t, nil, func(t *testing.T, h *host.Host) workshop {
		built := map[string]deb{}
		return workshop{
			pm: APT(), impatient: newApt(0), cache: "/var/cache/apt", folder: aptRepository, unsigned: "is missing or not signed; only signed repositories are used: ",
			build: func(_ *testing.T, _ *host.Host, p pkg) {
				d := deb{name: p.name, version: p.version}
				for _, field := range [][2]string{{"Depends", p.requires}, {"Provides", p.provides}, {"Conflicts", p.conflicts}, {"Recommends", p.recommends}} {
					if field[1] != "" {
						d.extra += field[0] + ": " + field[1] + "\n"
					}
				}
				built[p.name+" "+p.version] = d
			},
			publish: func(t *testing.T, h *host.Host, address string, signed bool) {
				options := map[bool]string{false: "[trusted=yes]"}[signed]
				var debs []deb
				for _, d := range built {
					debs = append(debs, d)
				}
				onlyRepository(t, h, options, debs...)
				if address != "" {
					require.NoError(t, os.WriteFile("/etc/apt/sources.list", []byte("deb "+options+" "+address+" ./\n"), 0o644))
				}
				if address == "" && !signed {
					require.NoError(t, APT().Refresh(t.Context(), h))
				}
			},
			additional: func(t *testing.T, h *host.Host, key signer) string {
				key.signApt(t, h)
				require.NoError(t, os.RemoveAll("/etc/apt/sources.list"))
				return "Types: deb\nURIs: file:" + aptRepository + "\nSuites: ./\n"
			},
			upgrade: []string{"apt-get", "--yes", "upgrade"},
			lock:    func(t *testing.T) func() { return hold(t, "/var/lib/dpkg/lock-frontend") },
		}
	})
}
