package asset

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

func row(t *testing.T, id string) Asset {
	t.Helper()
	i := slices.IndexFunc(Table(), func(a Asset) bool { return a.ID == id })
	require.GreaterOrEqual(t, i, 0, id)
	return Table()[i]
}

func TestUpstreamAddressesAndTargets(t *testing.T) {
	tests := []struct{ id, arch, url, sum, target, version string }{
		{
			"kubelet", "amd64",
			"https://dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet",
			"https://dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet.sha256",
			"/usr/bin/kubelet", "1.34.4",
		},
		{
			"containerd", "arm64",
			"https://github.com/containerd/containerd/releases/download/v2.3.7/containerd-static-2.3.7-linux-arm64.tar.gz",
			"https://github.com/containerd/containerd/releases/download/v2.3.7/containerd-static-2.3.7-linux-arm64.tar.gz.sha256sum",
			"/usr/local", "2.3.7",
		},
	}
	for _, test := range tests {
		t.Run(test.id, func(t *testing.T) {
			d, err := row(t, test.id).For(Choice{Kubernetes: "1.34.4", Arch: test.arch, Commands: "/usr/bin"})
			require.NoError(t, err)
			assert.Equal(t, test.url, d.URL)
			assert.Equal(t, test.sum, d.SumURL)
			assert.Equal(t, test.target, d.Target)
			assert.Equal(t, test.version, d.Version)
			assert.Empty(t, d.Mirror)
		})
	}
}

func TestMirrorAddresses(t *testing.T) {
	for source, want := range map[string]string{
		"http://10.0.0.1:8080":                 "http://10.0.0.1:8080/dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet",
		"http://10.0.0.1:8080/":                "http://10.0.0.1:8080/dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet",
		"https://mirror.example/a/b/":          "https://mirror.example/a/b/dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet",
		"https://me:secret@mirror.example/%20": "https://me:secret@mirror.example/%20/dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet",
	} {
		d, err := row(t, "kubelet").For(Choice{Kubernetes: "1.34.4", Arch: "amd64", Commands: "/usr/bin", Source: source, AllowHTTP: true})
		require.NoError(t, err)
		assert.Equal(t, want, d.URL)
		assert.Equal(t, want+".sha256", d.SumURL)
		assert.NotContains(t, d.Place()+d.Mirror, "secret")
	}
}

func TestVersionAndChecksumOverrides(t *testing.T) {
	sum := strings.Repeat("AB", 32)
	d, err := row(t, "cni-plugins").For(Choice{Kubernetes: "1.34.4", Arch: "amd64", Version: "1.6.2", SHA256: sum})
	require.NoError(t, err)
	assert.Equal(t, "1.6.2", d.Version)
	assert.Contains(t, d.URL, "/v1.6.2/cni-plugins-linux-amd64-v1.6.2.tgz")
	assert.Equal(t, strings.ToLower(sum), d.SHA256)
}

func TestEveryRowIsComplete(t *testing.T) {
	for _, a := range Table() {
		t.Run(a.ID, func(t *testing.T) {
			assert.NotEmpty(t, a.Why)
			assert.True(t, strings.HasPrefix(a.Target, "/") || strings.HasPrefix(a.Target, "{commands}/"))
			for _, address := range []string{a.URL, a.Sum} {
				u, err := url.Parse(strings.NewReplacer("{version}", "1.2.3", "{arch}", "amd64").Replace(address))
				require.NoError(t, err)
				assert.Equal(t, "https", u.Scheme)
				assert.NotContains(t, u.String(), "{")
				assert.Contains(t, address, "{version}")
			}
			assert.Contains(t, a.URL, "{arch}")
		})
	}
}

// cutAfter sends n bytes of the response and breaks the connection.
func (m *mirror) cutAfter(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { m.serve(&cutter{ResponseWriter: w, left: n}, r) }
}

type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p[:min(len(p), c.left)])
	if c.left -= n; c.left == 0 {
		c.ResponseWriter.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, err
}

// times applies a fault n times; then the server sends the file.
func (m *mirror) times(n int, fault http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if n--; n >= 0 {
			fault(w, r)
			return
		}
		m.serve(w, r)
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_ = conn.(*net.TCPConn).SetLinger(0) // closing then resets the connection
	_ = conn.Close()
}

func TestTransientFailuresAreRetried(t *testing.T) {
	data := noise(300_000)
	tests := map[string]struct {
		fault func(m *mirror) http.HandlerFunc
		asked []string
	}{
		"503":   {func(m *mirror) http.HandlerFunc { return m.times(2, status(503)) }, []string{firstPiece, firstPiece, firstPiece}},
		"429":   {func(m *mirror) http.HandlerFunc { return m.times(1, status(429)) }, []string{firstPiece, firstPiece}},
		"reset": {func(m *mirror) http.HandlerFunc { return m.times(2, reset) }, []string{firstPiece, firstPiece, firstPiece}},
		"cut off, resumed twice": {func(m *mirror) http.HandlerFunc { return m.times(2, m.cutAfter(100_000)) },
			[]string{firstPiece, "GET " + where + " bytes=100000-299999", "GET " + where + " bytes=200000-299999"}},
		"cut off, and the server supports no ranges": {func(m *mirror) http.HandlerFunc {
			return m.times(1, m.cutAfter(100_000))
		}, nil},
		"silent": {func(m *mirror) http.HandlerFunc {
			return m.times(1, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		}, []string{firstPiece, firstPiece}},
		"silent in the middle": {func(m *mirror) http.HandlerFunc {
			return m.times(1, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "300000")
				_, _ = w.Write(data[:100_000])
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			})
		}, []string{firstPiece, "GET " + where + " bytes=100000-"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t)
			m.put(where, data)
			m.faults[where] = test.fault(m)
			if test.asked == nil {
				cut := m.faults[where]
				m.faults[where] = func(w http.ResponseWriter, r *http.Request) { r.Header.Del("Range"); cut(w, r) }
			}
			h := newMachine(t, nil)
			_, err := Install(t.Context(), h.Host, patienceFor(name), m.program(where), quietly)
			require.NoError(t, err)
			got := []byte(testkit.Content(t, filepath.Join(h.root, "usr/bin/kubelet")))
			assert.Equal(t, sumOf(data), sumOf(got))
			if test.asked != nil {
				assert.Equal(t, test.asked, m.requests()[1:])
			}
		})
	}
}

// TestDownloadsUseTheProxyOfTheEnvironment runs itself as another process, because package http
// reads the environment only once.
func TestDownloadsUseTheProxyOfTheEnvironment(t *testing.T) {
	const at = "http://dl.example"
	if os.Getenv("HTTP_PROXY") != "" && os.Getenv("EKSNODE_TEST_PROXY") != "" {
		d := (&mirror{Server: &httptest.Server{URL: at}}).program(where)
		_, err := Install(t.Context(), newMachine(t, nil).Host, hasty(), d, quietly)
		require.NoError(t, err)
		return
	}
	m := newMirror(t) // a proxy gets the same path, after the host
	m.put(where, noise(10))
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), "HTTP_PROXY="+m.URL, "NO_PROXY=", "EKSNODE_TEST_PROXY=1")
	testkit.Output(t, cmd)
	assert.Equal(t, []string{"GET " + where + ".sha256", firstPiece}, m.requests())
}
