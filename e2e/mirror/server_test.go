package mirror

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const kubeletPath = "/dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet"

func TestServe(t *testing.T) {
	server := serve(t, Options{})
	for _, test := range []struct {
		name, method, path, rangeHeader string
		status                          int
		body                            string
	}{
		{"a file", "GET", kubeletPath, "", 200, "kubelet"},
		{"the checksum of a file", "GET", kubeletPath + ".sha256", "", 200, kubeletSum},
		{"the header of a file", "HEAD", kubeletPath, "", 200, ""},
		{"the middle of a file", "GET", kubeletPath, "bytes=2-4", 206, "bel"},
		{"the rest of a file", "GET", kubeletPath, "bytes=5-", 206, "et"},
		{"beyond the end of a file", "GET", kubeletPath, "bytes=100-", 416, "invalid range: failed to overlap\n"},
		{"nothing", "GET", "/dl.k8s.io/none", "", 404, "404 page not found\n"},
		{"a folder", "GET", "/dl.k8s.io", "", 404, "404 page not found\n"},
		{"a folder with a slash", "GET", "/dl.k8s.io/", "", 404, "404 page not found\n"},
		{"the root", "GET", "/", "", 404, "404 page not found\n"},
		{"outside the folder", "GET", "/../secret", "", 404, "404 page not found\n"},
		{"writing", "PUT", kubeletPath, "", 405, "only GET and HEAD\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			status, body, err := ask(t, test.method, server.URL()+test.path, test.rangeHeader)
			require.NoError(t, err)
			assert.Equal(t, test.status, status)
			assert.Equal(t, test.body, body)
			requests := server.Requests()
			bytes := int64(len(test.body))
			assert.Equal(t, Request{test.method, test.path, test.rangeHeader, test.status, bytes}, requests[len(requests)-1])
		})
	}
	assert.Len(t, server.Requests(), 12)
}

func TestServeOnAListener(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, err = ServeOn(t.Context(), listener, "/nowhere", Options{})
	require.EqualError(t, err, "serving the mirror: open /nowhere: no such file or directory")
	_, err = listener.Accept()
	require.ErrorIs(t, err, net.ErrClosed, "the listener must be closed")

	_, err = Serve(t.Context(), "nowhere", t.TempDir(), Options{})
	require.ErrorContains(t, err, "listen tcp: address nowhere")
}

func TestServeEndsWithContextAndClose(t *testing.T) {
	for name, end := range map[string]func(server *Server, cancel func()){
		"Close":       func(server *Server, _ func()) { assert.NoError(t, server.Close()) },
		"the context": func(_ *Server, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			server, err := Serve(ctx, "127.0.0.1:0", filledMirror(t), Options{})
			require.NoError(t, err)
			_, _, err = ask(t, "GET", server.URL()+kubeletPath, "")
			require.NoError(t, err)
			end(server, cancel)
			require.Eventually(t, func() bool {
				_, _, err := ask(t, "GET", server.URL()+kubeletPath, "")
				return err != nil
			}, time.Minute, 10*time.Millisecond)
		})
	}
}

func TestServeInjectedStatus(t *testing.T) {
	server := serve(t, Options{})
	server.Inject(Fail(kubeletPath, 500).First(1), Fail(kubeletPath, 404).First(2), Fail("/dl.k8s.io/none", 503))
	var got []int
	for range 4 {
		status, _, err := ask(t, "GET", server.URL()+kubeletPath, "")
		require.NoError(t, err)
		got = append(got, status)
	}
	assert.Equal(t, []int{500, 404, 404, 200}, got)
	for range 3 {
		status, body, err := ask(t, "GET", server.URL()+"/dl.k8s.io/none", "")
		require.NoError(t, err)
		assert.Equal(t, 503, status)
		assert.Equal(t, "Service Unavailable\n", body)
	}
	server.Heal()
	status, _, err := ask(t, "GET", server.URL()+"/dl.k8s.io/none", "")
	require.NoError(t, err)
	assert.Equal(t, 404, status)
}

func TestServeTruncatedBody(t *testing.T) {
	for _, test := range []struct {
		name string
		keep int64
		size int
		want int
	}{
		{"in the middle", 3, 7, 3},
		{"at once", 0, 7, 0},
		{"deep in a large file", 100_001, 200_000, 100_001},
		{"after the end", 7, 7, 7},
	} {
		t.Run(test.name, func(t *testing.T) {
			folder := filledMirror(t)
			content := strings.Repeat("k", test.size)
			require.NoError(t, os.WriteFile(filepath.Join(folder, kubeletPath), []byte(content), 0o644))
			server, err := Serve(t.Context(), "127.0.0.1:0", folder, Options{})
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, server.Close()) })
			server.Inject(Truncate(kubeletPath, test.keep).First(1))

			status, body, err := ask(t, "GET", server.URL()+kubeletPath, "")
			assert.Equal(t, 200, status)
			assert.Len(t, body, test.want)
			assert.EqualValues(t, test.want, server.Requests()[0].Bytes)
			if test.want < test.size {
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			} else {
				require.NoError(t, err)
			}
			_, body, err = ask(t, "GET", server.URL()+kubeletPath, "")
			require.NoError(t, err, "the fault must affect only the first request")
			assert.Equal(t, content, body)
		})
	}
}

func TestServeReplacedContent(t *testing.T) {
	server := serve(t, Options{})
	wrong := []byte("malware")
	server.Inject(Replace(kubeletPath, wrong).First(1), Replace("/dl.k8s.io/none", []byte("there now")))
	wrong[0] = 'M'
	for _, want := range []string{"malware", "kubelet"} {
		_, body, err := ask(t, "GET", server.URL()+kubeletPath, "")
		require.NoError(t, err)
		assert.Equal(t, want, body)
	}
	status, body, err := ask(t, "GET", server.URL()+"/dl.k8s.io/none", "bytes=6-")
	require.NoError(t, err)
	assert.Equal(t, 206, status)
	assert.Equal(t, "now", body)
}

// The properties of the line are lower bounds of the time.
func TestServeLatencyAndBandwidth(t *testing.T) {
	t.Run("latency", func(t *testing.T) {
		const latency = 30 * time.Millisecond
		server := serve(t, Options{Latency: latency})
		begin := time.Now()
		_, body, err := ask(t, "GET", server.URL()+kubeletPath, "")
		require.NoError(t, err)
		assert.Equal(t, "kubelet", body)
		assert.GreaterOrEqual(t, time.Since(begin), latency)
	})
	t.Run("bandwidth", func(t *testing.T) {
		const size, perSecond = 200_000, 1_000_000
		server := serve(t, Options{BytesPerSecond: perSecond})
		content := strings.Repeat("k", size)
		server.Inject(Replace("/large", []byte(content)))
		begin := time.Now()
		_, body, err := ask(t, "GET", server.URL()+"/large", "")
		require.NoError(t, err)
		assert.True(t, content == body)
		// The last tenth of a second's worth is sent at once.
		assert.GreaterOrEqual(t, time.Since(begin), size*time.Second/perSecond-100*time.Millisecond)
	})
	t.Run("ends when closed", func(t *testing.T) {
		server := serve(t, Options{BytesPerSecond: 1000})
		server.Inject(Replace("/endless", make([]byte, 1<<20)))
		response, err := http.Get(server.URL() + "/endless")
		require.NoError(t, err)
		defer response.Body.Close()
		require.NoError(t, server.Close())
		_, err = io.ReadAll(response.Body)
		require.Error(t, err)
	})
}

// filledMirror returns a folder with the mirror of tiny assets, and a file next
// to it that must not be served.
func filledMirror(t *testing.T) string {
	t.Helper()
	above := t.TempDir()
	folder := filepath.Join(above, "mirror")
	require.NoError(t, Lay(t.Context(), folder, three(t)...))
	require.NoError(t, os.WriteFile(filepath.Join(above, "secret"), []byte("secret"), 0o644))
	return folder
}

func serve(t *testing.T, options Options) *Server {
	t.Helper()
	server, err := Serve(t.Context(), "127.0.0.1:0", filledMirror(t), options)
	require.NoError(t, err)
	t.Cleanup(func() { server.Close() })
	return server
}

// ask sends one request on a connection of its own. The error may be that of
// the body.
func ask(t *testing.T, method, url, rangeHeader string) (status int, body string, err error) {
	t.Helper()
	request, err := http.NewRequest(method, url, nil)
	require.NoError(t, err)
	if rangeHeader != "" {
		request.Header.Set("Range", rangeHeader)
	}
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	response, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, string(content), err
}
