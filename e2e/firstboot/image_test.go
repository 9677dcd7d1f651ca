//go:build e2e

package firstboot_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/arguments"
)

// pauseImage is what a node in eu-west-1 pulls, if it has to.
func pauseImage() string {
	return "602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/pause:" + arguments.New().PauseVersion
}

// pause gives the machine's containerd the pause image, because there is no
// registry in the lab. Nothing ever runs it.
func (n *node) pause() {
	t := n.t
	t.Helper()
	pack := func(files map[string][]byte) []byte {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		for name, content := range files {
			require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Mode: 0o644}))
			_, err := w.Write(content)
			require.NoError(t, err)
		}
		require.NoError(t, w.Close())
		return out.Bytes()
	}
	encode := func(value any) []byte {
		text, err := json.Marshal(value)
		require.NoError(t, err)
		return text
	}
	layer := pack(map[string][]byte{"pause": []byte("nobody runs this")})
	sum := sha256.Sum256(layer)
	image := pack(map[string][]byte{
		"layer.tar": layer,
		"config.json": encode(map[string]any{
			"architecture": "amd64", "os": "linux",
			"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
		}),
		"manifest.json": encode([]any{map[string]any{"Config": "config.json", "RepoTags": []string{pauseImage()}, "Layers": []string{"layer.tar"}}}),
	})
	r, err := n.Run(n.lab.ctx, "sudo systemctl start containerd && sudo ctr -n k8s.io images import --no-unpack -", bytes.NewReader(image))
	require.NoError(t, err)
	require.Zero(t, r.Code, r.Stderr)
	n.sh("systemctl stop containerd")
}
