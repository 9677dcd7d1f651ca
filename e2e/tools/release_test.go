package tools

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/lifecycle"
)

// script is a program that prints the version 1.2.3.
const script = "#!/bin/sh\necho tool v1.2.3\n"

// site is a publisher's site on loopback, with the pages of a test.
func site(t *testing.T, pages map[string]string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch text, known := pages[r.URL.Path]; {
		case !known:
			http.NotFound(w, r)
		default:
			_, _ = w.Write([]byte(text))
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// getting gets a tool whose module does not exist, with an empty cache.
func getting(t *testing.T, from release) (path, log string, err error) {
	t.Setenv("GOPROXY", "off")
	var out strings.Builder
	one := builder{version: "1.2.3", arch: "amd64", log: &out, tool: Tool{
		Name: "tool", Module: "example.invalid/tool", Packages: []string{"."}, Output: "tool", Release: from,
		Probe: probe{[]string{"--version"}, "tool v{version}"},
	}}
	path, err = one.get(t.Context(), t.TempDir())
	return path, out.String(), err
}

func sumOf(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// Wrong data from a site is an error: the tool is not built instead.
func TestInvalidReleaseIsAnError(t *testing.T) {
	other := string(testkit.Zip(t, "other", script))
	for name, c := range map[string]struct{ path, file, sum, member, want string }{
		"another file":      {"/tool", script, sumOf("other"), "", "comparing URL/tool with URL/sum: the file has the SHA-256 " + sumOf(script) + ", the publisher says " + sumOf("other") + "; does a proxy change downloads?"},
		"no checksum":       {"/tool", script, "<html>", "", `reading the checksum file URL/sum: the line "<html>" is not a SHA-256`},
		"an empty list":     {"/tool", script, "", "", "reading the checksum file URL/sum: the file is empty"},
		"another's sum":     {"/tool", script, sumOf(script) + "  other\n", "", "reading the checksum file URL/sum: the file does not list tool"},
		"an empty zip":      {"/tool.zip", other, sumOf(other), "tool", "unpacking URL/tool.zip: open tool: file does not exist"},
		"no archive":        {"/tool.tar.gz", "text", sumOf("text"), "tool", "unpacking URL/tool.tar.gz: unexpected EOF"},
		"another's version": {"/tool", "#!/bin/sh\necho tool v1.2.4\n", sumOf("#!/bin/sh\necho tool v1.2.4\n"), "", "checking `tool --version`: printed \"tool v1.2.4\", must contain \"tool v1.2.3\""},
	} {
		t.Run(name, func(t *testing.T) {
			where := site(t, map[string]string{c.path: c.file, "/sum": c.sum})
			_, log, err := getting(t, release{URL: where + c.path, Sum: where + "/sum", Form: asset.Bare, Member: c.member})
			require.EqualError(t, err, strings.ReplaceAll(c.want, "URL", where))
			assert.NotContains(t, log, "building")
		})
	}
}

func TestPackerOnSearchPath(t *testing.T) {
	for _, c := range []struct {
		name, script, version string
		fits                  bool
	}{
		{"the wanted version", "echo Packer v1.12.0", "1.12.0", true},
		{"another version", "echo Packer v1.14.0", "1.16.0", false},
		{"any new enough", "echo Packer v1.14.0", "", true},
		{"with an update message", "echo Packer v1.14.0; echo; echo Your version of Packer is out of date", "", true},
		{"too old", "echo Packer v1.9.9", "", false},
		{"newer than the table", "echo Packer v2.0.0", "", true},
		{"cracklib's", "cat > /dev/null; echo skipping line: 1", "", false},
		{"a program that fails", "echo Packer v1.14.0; exit 1", "", false},
		{"a program without output", ":", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			packer := filepath.Join(folder, "packer")
			require.NoError(t, os.WriteFile(packer, []byte("#!/bin/sh\n"+c.script+"\n"), 0o755))
			t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
			program, _ := onPath(t.Context(), c.version)
			assert.Equal(t, c.fits, program == packer, program)
		})
	}
	t.Setenv("PATH", t.TempDir())
	program, _ := onPath(t.Context(), "")
	assert.Empty(t, program)
}

// A program built from another module must fail the check.
func TestVerifyRefusesProgramOfAnotherModule(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	folder := t.TempDir()
	require.NoError(t, os.Symlink(self, filepath.Join(folder, "packer")))
	tool, version, err := Find(NamePacker, "")
	require.NoError(t, err)
	err = builder{tool: tool, version: version, arch: "amd64"}.verify(t.Context(), folder, ".")
	require.ErrorContains(t, err, "checking packer: built from github.com/eksnode/packer-plugin-eksnode/e2e/tools.test, must be built from github.com/hashicorp/packer")
}

// Builds with different results must have different keys in the cache.
func TestCacheKeysDifferByBuildArguments(t *testing.T) {
	packer, _, err := Find(NamePacker, "")
	require.NoError(t, err)
	tagged := packer
	tagged.Tags = []string{"extra"}
	keys := map[string]bool{}
	for _, one := range []builder{
		{tool: packer, version: "1.16.0", arch: "amd64"},
		{tool: packer, version: "1.12.0", arch: "amd64"},
		{tool: packer, version: "1.16.0", arch: "arm64"},
		{tool: tagged, version: "1.16.0", arch: "amd64"},
	} {
		keys[one.key("go1.26.0")] = true
		keys[one.key("go1.26.1")] = true
	}
	assert.Len(t, keys, 8)
}

// toLoopback sends every request to a server on the loopback interface.
type toLoopback struct{ server *httptest.Server }

func (l toLoopback) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Asked", r.URL.Host)
	r.URL.Scheme, r.URL.Host = "http", strings.TrimPrefix(l.server.URL, "http://")
	return http.DefaultTransport.RoundTrip(r)
}

// compare runs Compare against a module proxy with these lists, and publishers with these
// answers by host.
func compare(t *testing.T, lists, publishers map[string]string, day string) News {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, there := lists[strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/"), "/@v/list")]
		if host := r.Header.Get("Asked"); host != "proxy.test" {
			text, there = publishers[host+r.URL.Path]
		}
		switch to, redirects := strings.CutPrefix(text, "to "); {
		case !there:
			http.NotFound(w, r)
		case redirects:
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusFound)
		default:
			_, _ = w.Write([]byte(text)) // the client reports what is missing
		}
	}))
	t.Cleanup(server.Close)
	now, err := time.Parse(time.DateOnly, day)
	require.NoError(t, err)
	return Compare(t.Context(), &http.Client{Transport: toLoopback{server}}, "http://proxy.test", now)
}

func TestCompareNamesWhatIsNewerAndWhatEnds(t *testing.T) {
	const eks = "https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html"
	news := compare(t, map[string]string{
		"k8s.io/kubernetes":                       "v1.36.3\nv1.36.10\nv1.36.9\nv1.38.0-rc.1\nv1.30.14\n",
		"github.com/containerd/containerd/v2":     "v2.3.7\nv2.5.0\nv2.4.2\nv2.2.99\n",
		"github.com/opencontainers/runc":          "v1.5.3\nv1.5.4+incompatible\n",
		"github.com/containernetworking/plugins":  "v1.10.0\n",
		"github.com/!shopify/toxiproxy/v2":        "v2.5.0\nv2.12.0\n",
		"go.etcd.io/etcd/server/v3":               "v3.5.35\n",
		"github.com/hashicorp/packer-plugin-qemu": "",
	}, map[string]string{
		"amazon-eks.s3.us-west-2.amazonaws.com/":                   "<Prefix>1.37.1/</Prefix><Prefix>1.38.0/</Prefix><Prefix>cloudformation/</Prefix>",
		"github.com/opencontainers/runc/releases/latest":           "to https://github.com/opencontainers/runc/releases/tag/v1.6.0",
		"github.com/containernetworking/plugins/releases/latest":   "to https://github.com/containernetworking/plugins/releases/tag/v1.10.0",
		"github.com/containerd/containerd/releases/latest":         "to https://github.com/containerd/containerd/releases/tag/v2.3.8",
		"github.com/kubernetes/cloud-provider-aws/releases/latest": "to /kubernetes/cloud-provider-aws/releases/tag/v1.37.2",
	}, "2026-11-24")
	assert.ElementsMatch(t, []string{
		"kubelet 1.36.10: the table has 1.36.3 (k8s.io/kubernetes)",
		"kubelet 1.37.1: EKS has it, and the table has no end of its support",
		"kubelet 1.38.0: the table has no line 1.38 (its publisher)",
		"containerd 2.5.0: the table has no line 2.5 (github.com/containerd/containerd/v2)",
		"containerd 2.3.8: the table has 2.3.7 (its publisher)",
		"runc 1.6.0: the table has no line 1.6 (its publisher)",
		"ecr-credential-provider 1.37.2: the table has 1.37.0 (its publisher)",
		"toxiproxy-server 2.12.0: the table has 2.5.0 (github.com/Shopify/toxiproxy/v2)",
		"extended support of Kubernetes 1.31 on EKS ends on 2026-11-26 (" + eks + ")",
		"standard support of Kubernetes 1.34 on EKS ends on 2026-12-02 (" + eks + ")",
		"support of Fedora 43 ends on 2026-12-09 (https://fedorapeople.org/groups/schedule/)",
		"long-term service pack support of SUSE Linux Enterprise Server 15 SP4 ends on 2026-12-31 (https://www.suse.com/lifecycle)",
	}, news.Changes)
	assert.Contains(t, news.Away, "k8s.io/cloud-provider-aws: 404 Not Found")
	assert.NotContains(t, strings.Join(news.Away, "\n"), "qemu", "an empty list is an answer")
}

func TestCompareWithoutAnyNetwork(t *testing.T) {
	news := compare(t, nil, nil, "2029-01-01")
	assert.Empty(t, news.Changes)
	assert.Contains(t, news.Away, "k8s.io/kubernetes: 404 Not Found")
	assert.Contains(t, news.Away, "https://github.com/opencontainers/runc/releases/latest: 404 Not Found")
}

// Every program of the table of versions is compared.
func TestEveryProgramOfTheTableHasATool(t *testing.T) {
	for _, r := range lifecycle.All() {
		if r.Newest != "" {
			tool, _, err := Find(r.ID, r.Newest)
			require.NoError(t, err)
			assert.NotEmpty(t, tool.Module)
		}
	}
}
