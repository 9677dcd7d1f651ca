//go:build e2e

package provisioner

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/livetest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// Debian's containerd pulls an image of a registry that nobody can reach through the second
// of two mirrors, which serves at a path; the first is away.
func TestContainerdPullsThroughAMirror(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		sh := func(line string, more ...string) {
			t.Helper()
			_, err := h.Run(t.Context(), host.Command{Argv: append([]string{"sh", "-ec", line, "sh"}, more...)})
			require.NoError(t, err)
		}
		sh(`cd "$1"; apt-get update; apt-get download containerd
			dpkg-deb --fsys-tarfile containerd_*.deb | tar --extract --keep-directory-symlink --directory /`, t.TempDir())

		images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
		var asked []string
		mirror := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.URL.Path)
			r.URL.Path = strings.TrimPrefix(r.URL.Path, "/v2/proxy")
			if !strings.HasPrefix(r.URL.Path, "/v2") {
				r.URL.Path = "/v2" + r.URL.Path
			}
			images.ServeHTTP(w, r)
		}))
		defer mirror.Close()
		ref, err := name.ParseReference(strings.TrimPrefix(mirror.URL, "http://")+"/team/app:1", name.Insecure)
		require.NoError(t, err)
		image, err := random.Image(100, 1)
		require.NoError(t, err)
		require.NoError(t, remote.Write(ref, image))
		away := httptest.NewServer(nil)
		away.Close()

		n := nodeOf(t, "debian", Spec{NodeDefaults: NodeDefaults{RegistryMirrors: map[string]string{
			"registry.invalid": away.URL + ", " + mirror.URL + "/v2/proxy"}}})
		files, err := plan.Files(h, n.defaultsFiles())
		require.NoError(t, err)
		for _, action := range files {
			require.NoError(t, action.Do(t.Context(), nil))
		}
		folder := t.TempDir()
		socket := filepath.Join(folder, "containerd.sock")
		daemon := exec.CommandContext(t.Context(), "containerd", "--address", socket,
			"--root", folder+"/root", "--state", folder+"/state")
		daemon.Stderr = t.Output()
		require.NoError(t, daemon.Start())
		defer func() { assert.NoError(t, daemon.Process.Kill()); _ = daemon.Wait() }()
		ctr := fmt.Sprintf("ctr --address %s ", socket)
		require.NoError(t, machine.Poll(t.Context(), func() error {
			_, err := h.Run(t.Context(), host.Command{Argv: []string{"sh", "-c", ctr + "version"}})
			return err
		}))
		asked = nil
		sh(ctr + "images pull --snapshotter native --hosts-dir " + mirrorsFolder + " registry.invalid/team/app:1")
		digest, err := image.Digest()
		require.NoError(t, err)
		assert.Contains(t, asked, "/v2/proxy/team/app/manifests/"+digest.String())
	})
}
