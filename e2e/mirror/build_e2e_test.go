//go:build e2e

package mirror_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"os/exec"
	"path"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
)

// The mirror of the real programs serves the same files as the upstream sites:
// each file matches its checksum, and tar unpacks the tarball.
func TestMirrorServesTheTools(t *testing.T) {
	built, err := mirror.Build(t.Context(), mirror.Versions{Runtime: true}, runtime.GOARCH, t.Output())
	require.NoError(t, err)
	server, err := mirror.Serve(t.Context(), "127.0.0.1:0", built.Folder, mirror.Options{})
	require.NoError(t, err)
	defer server.Close()
	require.Len(t, built.Assets, 5)
	members := map[string]string{".tgz": "./bridge\n", ".gz": "./bin/containerd\n"}
	for _, asset := range built.Assets {
		t.Run(asset.URL, func(t *testing.T) {
			content := get(t, server, asset.URL)
			sum := sha256.Sum256([]byte(content))
			assert.Equal(t, hex.EncodeToString(sum[:]), strings.Fields(get(t, server, asset.SumURL))[0])
			if want := members[path.Ext(asset.URL)]; want != "" {
				list := exec.CommandContext(t.Context(), "tar", "-tz")
				list.Stdin = strings.NewReader(content)
				names, err := list.CombinedOutput()
				require.NoError(t, err, string(names))
				assert.Contains(t, string(names), want)
			}
		})
	}
}

func get(t *testing.T, server *mirror.Server, upstream string) string {
	t.Helper()
	place, err := mirror.Place(upstream)
	require.NoError(t, err)
	response, err := http.Get(server.URL() + "/" + place)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(content)
}
