//go:build e2e && full

package join_test

import (
	"context"
	_ "embed"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// sociPackage makes the package of the snapshotter, and a pause image as pause_image does.
// The kernel's list of processors is one of an instance that is large enough.
//
//go:embed testdata/soci.sh
var sociPackage string

// An image with soci joins. The snapshotter has the pause image before the kubelet starts,
// and fetches the layers of a pod's image itself.
func TestSOCIPullsAndRuns(t *testing.T) {
	w := openWorld(t, lab.System{}, 30*time.Minute)
	image := filepath.Join(w.Folder(), "soci.raw")
	maker := w.launch("i-maker", w.image, "nobody", nil)
	maker.Upload(t, fetch(t, []string{tools.NameSOCI})[tools.NameSOCI], "/run/soci-snapshotter-grpc")
	w.step("%s", maker.Sh(t, "set -- %s %s %s\n%s", lab.PauseImage(), lab.Kubelet, w.slowMirror(), sociPackage)) // has all programs
	w.scrubbed(maker, image)

	i := w.launch("i-soci", image, w.b.role, w.b.nodeConfig())
	defer w.end(i)
	w.works(w.b, i, "imported", "word-of-b")
	began := i.Lines(t, "systemctl show --property=ActiveEnterTimestampMonotonic --value soci-snapshotter containerd kubelet | grep .")
	require.Len(t, began, 3)
	assert.IsIncreasing(t, began, "first the snapshotter, then containerd, then the kubelet")
	assert.Equal(t, "localhost/kubernetes/pause:latest",
		i.Sh(t, "ctr --namespace k8s.io images check --quiet --snapshotter soci name==localhost/kubernetes/pause:latest"))

	const pulled = "example.com:5000/busybox:1"
	fetched := w.serveRegistry(i, pulled)
	w.b.must(t, "", "run", "pulled", "--image="+pulled, "--overrides="+
		`{"spec": {"nodeName": "`+i.PrivateDNSName+`"}}`, "--command", "--", "tail", "-f", "/dev/null")
	w.b.must(t, "", "wait", "--for=condition=Ready", "pod/pulled", "--timeout="+patience.String())
	by := strings.Join(fetched(), "\n")
	w.step("the layers were fetched by %q", by)
	assert.Contains(t, by, "soci-snapshotter")
	assert.NotContains(t, by, "containerd", "the layers must be the snapshotter's work")
}

// serveRegistry serves an image with TLS to an instance. The result lists the programs that
// fetched layers.
func (w *world) serveRegistry(i *instance, image string) (fetched func() []string) {
	w.t.Helper()
	content := lab.Image(w.t, idle, lab.Busybox(w.t, "tail")...)
	layers, err := content.Layers()
	require.NoError(w.t, err)
	layer, err := layers[0].Digest()
	require.NoError(w.t, err)
	var mutex sync.Mutex
	var agents []string
	images := lab.Registry()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, layer.String()) {
			mutex.Lock()
			agents = append(agents, r.UserAgent())
			mutex.Unlock()
		}
		images.ServeHTTP(out, r)
	}))
	require.NoError(w.t, server.Listener.Close())
	server.Listener, err = w.Listen(w.Ctx, "tcp", w.Port("5000"))
	require.NoError(w.t, err)
	server.StartTLS()
	w.t.Cleanup(server.Close)
	ref, err := name.ParseReference(image)
	require.NoError(w.t, err)
	transport := server.Client().Transport.(*http.Transport).Clone()
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return w.Dial(ctx, "tcp", w.Port("5000"))
	}
	require.NoError(w.t, remote.Write(ref, content, remote.WithTransport(transport), remote.WithContext(w.Ctx)))
	i.Sh(w.t, "echo '%s example.com' >> /etc/hosts\ncat > /usr/local/share/ca-certificates/lab.crt <<'EOF'\n%sEOF\nupdate-ca-certificates",
		w.HostAddress(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	return func() []string {
		mutex.Lock()
		defer mutex.Unlock()
		return agents
	}
}
