//go:build release

package release

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// github starts a proxy in which github.com and api.github.com serve only the
// release in dist. It returns the proxy's address and the certificate to trust
// for both hosts.
func github(t *testing.T, dist string) (proxy string, certificate []byte) {
	site := http.NewServeMux()
	site.HandleFunc("GET api.github.com/repos/eksnode/packer-plugin-eksnode/git/matching-refs/tags", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `[{"ref": "refs/tags/v`+number+`"}]`)
	})
	site.HandleFunc("GET github.com/eksnode/packer-plugin-eksnode/releases/download/v"+number+"/{file}", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, filepath.Join(dist, r.PathValue("file")))
	})
	server := httptest.NewUnstartedServer(site)
	hosts := []string{"github.com", "api.github.com"}
	certificate, key := testkit.Certificate(t, x509.Certificate{DNSNames: hosts, IsCA: true})
	block, _ := pem.Decode(certificate)
	pair := tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	t.Cleanup(server.Close)

	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		testkit.Tunnel(w, server.Listener.Addr().String(), nil)
	}))
	t.Cleanup(front.Close)
	return front.URL, certificate
}

// formats are the endings of the packages for Linux.
func formats() []string { return []string{".deb", ".rpm", ".pkg.tar.zst"} }

func packagesOf(system string) []string {
	if !strings.HasPrefix(system, "linux") {
		return nil
	}
	return show.Each(formats(), func(ending string) string { return "eksnode_v" + number + "_" + system + ending })
}

// installed are the files of the packages that are the same everywhere, beside the
// man pages.
func installed() []string {
	return []string{"/usr/bin/eksnode", "/usr/share/bash-completion/completions/eksnode", "/usr/share/fish/vendor_completions.d/eksnode.fish"}
}

// packages installs the packages of this machine's architecture, each by the
// package manager of its format as far as Debian has it.
func packages(t *testing.T, dist string) {
	pages := manPages(t, dist)
	file := func(ending string) string {
		return filepath.Join(dist, "eksnode_v"+number+"_linux_"+runtime.GOARCH+ending)
	}
	t.Run("deb", func(t *testing.T) {
		root := t.TempDir()
		for _, folder := range []string{"info", "updates", "triggers"} {
			require.NoError(t, os.MkdirAll(filepath.Join(root, "var/lib/dpkg", folder), 0o755))
		}
		require.NoError(t, os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644))
		testkit.In(t, "", "dpkg", "--root="+root, "--log=/dev/null", "--install", file(".deb"))
		assert.Equal(t, number, testkit.In(t, "", "dpkg-query", "--root="+root,
			"--showformat=${Version}", "--show", "eksnode"))
		extra := []string{"/usr/share/zsh/vendor-completions/_eksnode", "/usr/share/doc/eksnode/copyright"}
		assert.ElementsMatch(t, slices.Concat(installed(), extra, pages), regular(t, root))
		works(t, root, "usr/share/zsh/vendor-completions/_eksnode", pages)
	})
	t.Run("rpm", func(t *testing.T) {
		root := t.TempDir()
		testkit.In(t, "", "rpm", "--checksig", "--nosignature", file(".rpm"))
		testkit.In(t, "", "rpm", "--root="+root, "--dbpath=/var/lib/rpm", "--install",
			"--nodeps", "--nosignature", file(".rpm"))
		extra := []string{"/usr/share/zsh/site-functions/_eksnode", "/usr/share/licenses/eksnode/LICENSE"}
		assert.ElementsMatch(t, slices.Concat(installed(), extra, pages), regular(t, root))
		works(t, root, "usr/share/zsh/site-functions/_eksnode", pages)
	})
	t.Run("archlinux", func(t *testing.T) {
		root := t.TempDir()
		testkit.In(t, root, "tar", "--zstd", "-xf", file(".pkg.tar.zst"))
		extra := []string{"/usr/share/zsh/site-functions/_eksnode", "/usr/share/licenses/eksnode/LICENSE"}
		assert.ElementsMatch(t, slices.Concat(installed(), extra, pages, []string{"/.PKGINFO", "/.MTREE"}), regular(t, root))
		works(t, root, "usr/share/zsh/site-functions/_eksnode", pages)
	})
}

// manPages are the man pages in the command's archive, as packages install them.
func manPages(t *testing.T, dist string) []string {
	folder := filepath.Dir(unpack(t, filepath.Join(dist, archiveOf("linux_"+runtime.GOARCH)), "eksnode"))
	found := testkit.Glob(t, filepath.Join(folder, "share/man/man1/*.1.gz"))
	pages := show.Each(found, func(name string) string { return "/usr/share/man/man1/" + filepath.Base(name) })
	for _, want := range []string{"eksnode", "eksnode-scrub", "eksnode-userdata-render", "eksnode-completion"} {
		assert.Contains(t, pages, "/usr/share/man/man1/"+want+".1.gz")
	}
	return pages
}

// regular lists the regular files below a root, without those of package managers.
func regular(t *testing.T, root string) []string {
	var list []string
	for line := range strings.Lines(testkit.In(t, root, "find", ".",
		"-path", "./var", "-prune", "-o", "-type", "f", "-print")) {
		list = append(list, strings.TrimSpace(strings.TrimPrefix(line, ".")))
	}
	return list
}

// works runs what a package installed: the program, the man pages, and the
// completion of the shells, that of bash through Debian's bash-completion.
func works(t *testing.T, root, zsh string, pages []string) {
	assert.Equal(t, number+"\n", testkit.In(t, "", filepath.Join(root, "usr/bin/eksnode"), "version"))
	for _, page := range pages {
		assert.Empty(t, testkit.In(t, "", "sh", "-c",
			`LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$0" 2>&1 > /dev/null`,
			filepath.Join(root, page)), page)
	}
	assert.Contains(t, testkit.In(t, "", "man", "-l",
		filepath.Join(root, "usr/share/man/man1/eksnode-scrub.1.gz")), number)
	testkit.In(t, "", "zsh", "-n", filepath.Join(root, zsh))
	testkit.In(t, "", "fish", "-n", filepath.Join(root, "usr/share/fish/vendor_completions.d/eksnode.fish"))
	completed := testkit.In(t, "", "bash", "-c", fmt.Sprintf(`export PATH=%[1]s/usr/bin:$PATH XDG_DATA_DIRS=%[1]s/usr/share
source /usr/share/bash-completion/bash_completion
_comp_load eksnode || _completion_loader eksnode
COMP_LINE='eksnode scrub --rules kubelet-p' COMP_POINT=31 COMP_TYPE=9 COMP_KEY=9 COMP_WORDS=(eksnode scrub --rules kubelet-p) COMP_CWORD=3
__start_eksnode
for reply in "${COMPREPLY[@]}"; do echo "${reply%%%% *}"; done`, root))
	assert.Regexp(t, `^kubelet-pki\nkubelet-pods\n(kubelet-p\S+\n)*$`, completed)
}
