//go:build e2e

package scrub_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// imageName is the only image on the machines: the sandboxes' and the pods'.
const imageName = "registry.test/pause:1"

// pauseProgram says its arguments and waits to be ended.
const pauseProgram = `package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	fmt.Println(os.Args[1:])
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	<-end
}
`

// ociImage is a tar file of an OCI image layout with one static program, for
// ctr images import.
func ociImage(t *testing.T) []byte {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "main.go"), []byte(pauseProgram), 0o644))
	program := filepath.Join(folder, "pause")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, filepath.Join(folder, "main.go"))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=mod", "GO111MODULE=off")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	text, err := os.ReadFile(program)
	require.NoError(t, err)
	layer := archive(t, map[string][]byte{"pause": text}, 0o755)

	files := map[string][]byte{"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`)}
	add := func(kind string, blob []byte) map[string]any {
		sum := sha256.Sum256(blob)
		digest := hex.EncodeToString(sum[:])
		files["blobs/sha256/"+digest] = blob
		return map[string]any{"mediaType": kind, "digest": "sha256:" + digest, "size": len(blob)}
	}
	encode := func(v any) []byte {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		return text
	}
	layerSum := sha256.Sum256(layer)
	config := add("application/vnd.oci.image.config.v1+json", encode(map[string]any{
		"architecture": "amd64", "os": "linux", "config": map[string]any{"Entrypoint": []string{"/pause"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(layerSum[:])}},
	}))
	manifest := add("application/vnd.oci.image.manifest.v1+json", encode(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": config, "layers": []any{add("application/vnd.oci.image.layer.v1.tar", layer)},
	}))
	manifest["annotations"] = map[string]string{"io.containerd.image.name": imageName, "org.opencontainers.image.ref.name": "1"}
	manifest["platform"] = map[string]string{"architecture": "amd64", "os": "linux"}
	files["index.json"] = encode(map[string]any{"schemaVersion": 2, "manifests": []any{manifest}})
	return archive(t, files, 0o644)
}

func archive(t *testing.T, files map[string][]byte, mode int64) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, text := range files {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Size: int64(len(text)), Mode: mode}))
		_, err := w.Write(text)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}
