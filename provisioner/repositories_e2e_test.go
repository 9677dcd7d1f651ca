//go:build e2e

package provisioner

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/e2e/livetest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
)

// signedRepository makes a repository with the package eksnode-extra, and returns its text
// and its public key.
func signedRepository(t *testing.T, h *host.Host, more ...string) (text, key string) {
	t.Helper()
	run := func(argv ...string) string {
		out, err := h.Run(t.Context(), host.Command{Argv: argv})
		require.NoError(t, err)
		return string(out)
	}
	const folder, home = "/srv/extra", "/srv/gnupg"
	require.NoError(t, os.MkdirAll(folder, 0o755))
	require.NoError(t, os.MkdirAll(home, 0o700))
	t.Cleanup(func() { require.NoError(t, exec.Command("gpgconf", "--homedir", home, "--kill", "gpg-agent").Run()) })
	index := []byte(deb{name: "eksnode-extra", version: "1"}.build(t, h, folder+"/extra.deb"))
	release := fmt.Appendf(nil, "Date: %s\nSHA256:\n %x %d Packages\n", time.Now().UTC().Format(time.RFC1123), sha256.Sum256(index), len(index))
	require.NoError(t, os.WriteFile(folder+"/Packages", index, 0o644))
	require.NoError(t, os.WriteFile(folder+"/Release", release, 0o644))
	gpg := []string{"gpg", "--homedir", home, "--batch", "--yes", "--pinentry-mode", "loopback", "--passphrase", ""}
	expires := map[bool]string{true: "never", false: "1d"}[len(more) == 0]
	run(append(append(gpg, more...), "--quick-generate-key", "extra", "rsa2048", "sign", expires)...)
	key = run(append(gpg, "--armor", "--export", "extra")...)
	run(append(append(gpg, more...), "--output", folder+"/InRelease", "--clearsign", folder+"/Release")...)
	return "Types: deb\nURIs: file:" + folder + "\nSuites: ./\n", key
}

// installing applies the step packages for one package, twice, on a machine without other
// repositories.
func installing(t *testing.T, h *host.Host, s Spec) error {
	t.Helper()
	d := distroOf(t, "debian")
	d.Packages = map[distros.Role][]string{distros.Trust: {"eksnode-extra"}}
	s.KubernetesVersion = "1.34.4"
	require.NoError(t, s.Validate())
	require.NoError(t, s.supportedBy(d))
	n := nodeFor(t, s, d, "amd64")
	return settle(t, h, pick(n, "packages")...)
}

const (
	extraSource = "/etc/apt/sources.list.d/eksnode-extra.sources"
	extraKey    = "/etc/apt/keyrings/eksnode-extra.asc"
)

func TestRepositoriesAreForTheBuildOrForTheImage(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		alone(t)
		text, key := signedRepository(t, h)
		s := Spec{Repositories: map[string]string{"extra": text}, RepositoryKeys: map[string]string{"extra": key}}
		require.NoError(t, installing(t, h, s))
		assert.NoFileExists(t, extraSource)
		assert.NoFileExists(t, extraKey)

		s.KeepRepositories = true
		require.NoError(t, installing(t, h, s))
		kept := testkit.Content(t, extraSource)
		assert.Equal(t, "Types: deb\nSigned-By: "+extraKey+"\nURIs: file:/srv/extra\nSuites: ./\n", kept)

		require.NoError(t, installing(t, h, Spec{}))
		assert.NoFileExists(t, extraSource, "the spec no longer has the repository")
		assert.NoFileExists(t, extraKey)
	})
}

func TestRepositoriesThatCannotBeTrusted(t *testing.T) {
	for name, c := range map[string]struct {
		gpg  []string
		spec func(text, key string) Spec
		want string
	}{
		"without a key": {nil, func(text, _ string) Spec {
			return Spec{Repositories: map[string]string{"extra": text}}
		}, "which this machine does not trust"},
		"with an expired key": {[]string{"--faked-system-time", "20200101T000000!"}, func(text, key string) Spec {
			return Spec{Repositories: map[string]string{"extra": text}, RepositoryKeys: map[string]string{"extra": key}}
		}, "which has expired"},
		"at no server": {nil, func(_, key string) Spec {
			return Spec{Repositories: map[string]string{"extra": "Types: deb\nURIs: http://127.0.0.1:1\nSuites: ./"}, RepositoryKeys: map[string]string{"extra": key}}
		}, "the repository http://127.0.0.1:1/./ could not be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			livetest.Run(t, func(t *testing.T, h *host.Host) {
				alone(t)
				text, key := signedRepository(t, h, c.gpg...)
				require.ErrorContains(t, installing(t, h, c.spec(text, key)), c.want)
			})
		})
	}
}

func TestPackagesComeThroughTheProxy(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		alone(t)
		text, key := signedRepository(t, h)
		text = strings.Replace(text, "file:/srv/extra", "http://packages.example", 1)
		proxy := httptest.NewServer(http.FileServer(http.Dir("/srv/extra")))
		defer proxy.Close()
		s := Spec{Repositories: map[string]string{"extra": text}, RepositoryKeys: map[string]string{"extra": key}}
		require.ErrorContains(t, installing(t, h, s), "the repository http://packages.example/./ could not be reached")
		s.Proxy = proxy.URL
		require.NoError(t, installing(t, h, s))
	})
}

func TestUnverifiedRepositoriesAreWarnings(t *testing.T) {
	for id, text := range map[string]string{
		"debian": "Types: deb\nTrusted: yes\n", "fedora": "[x]\ngpgcheck = 0\n", "sles": "[x]\npkg_gpgcheck=off\n",
		"arch": "[x]\nSigLevel = Optional TrustAll\n",
	} {
		d := distroOf(t, id)
		warnings := Spec{Repositories: map[string]string{"x": text}}.repositoryWarnings(d)
		require.Len(t, warnings, 1, id)
		assert.Contains(t, warnings[0], "nobody verifies the signatures of its packages")
	}
	d := distroOf(t, "arch")
	assert.Empty(t, Spec{Repositories: map[string]string{"x": "[x]\nSigLevel = Required DatabaseOptional\n"}}.repositoryWarnings(d))
}

// The real update-ca-certificates adds an authority to the bundle and removes it
// again.
func TestAuthoritiesAreTrusted(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		authority := map[string]string{"example": certificate(t, "Example", true)}
		trusting := nodeOf(t, "debian", Spec{CACertificates: authority})
		has, err := trusting.bundleHas(h)
		require.NoError(t, err)
		require.False(t, has)
		require.NoError(t, settle(t, h, pick(trusting, "authorities")...))
		has, err = trusting.bundleHas(h)
		require.NoError(t, err)
		assert.True(t, has)

		require.NoError(t, settle(t, h, pick(nodeOf(t, "debian", Spec{}), "authorities")...))
		has, err = trusting.bundleHas(h)
		require.NoError(t, err)
		assert.False(t, has, "an authority that the spec no longer has is removed")
	})
}
