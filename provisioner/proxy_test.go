package provisioner

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
)

func TestTheBuildsProxy(t *testing.T) {
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.Host+" "+r.Header.Get("Proxy-Authorization"))
		w.WriteHeader(http.StatusForbidden)
	}))
	defer proxy.Close()
	address := "http://user:word@" + proxy.Listener.Addr().String()
	s := Spec{KubernetesVersion: "1.36.3", Proxy: address, NoProxy: []string{"127.0.0.2"}}
	require.NoError(t, s.Validate())
	once := asset.Patience{Attempts: 1, Stall: time.Minute}
	_, err := s.fetcher(once).Open(t.Context(), "https://dl.example/x", 0)
	require.Error(t, err)
	assert.Equal(t, "CONNECT dl.example:443 Basic dXNlcjp3b3Jk", asked[0])
	count := len(asked)
	_, err = s.fetcher(once).Open(t.Context(), "http://127.0.0.2:1/x", 0)
	require.Error(t, err)
	assert.Len(t, asked, count, "no_proxy has the address")

	// The package manager's commands have the proxy, and no file of the machine.
	assert.Contains(t, s.buildProxy(), "https_proxy="+address)
	assert.Contains(t, s.buildProxy(), "no_proxy=localhost,127.0.0.1,::1,169.254.169.254,fd00:ec2::254,127.0.0.2")
	d := distroOf(t, "debian")
	n := nodeFor(t, s, d, "amd64")
	for _, f := range n.writtenFiles() {
		assert.NotContains(t, string(f.Content), "user:word")
	}
}
