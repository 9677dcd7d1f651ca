package engines

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// releaseVersion is what the archives' names say.
const releaseVersion = "0.1.0"

// packRelease builds the command from this tree and packs it into a folder as a
// release does. It answers the archive's name and its SHA-256.
func packRelease(ctx context.Context, folder string) (name, digest string, err error) {
	program := filepath.Join(folder, "eksnode")
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "github.com/eksnode/packer-plugin-eksnode/cmd/eksnode")
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("building the command: %w: %s", err, out)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return "", "", fmt.Errorf("packing the command: %w", err)
	}
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	w := tar.NewWriter(compressed)
	if err := w.WriteHeader(&tar.Header{Name: "eksnode", Mode: 0o755, Size: int64(len(content))}); err != nil {
		return "", "", fmt.Errorf("packing the command: %w", err)
	}
	if _, err := w.Write(content); err != nil {
		return "", "", fmt.Errorf("packing the command: %w", err)
	}
	if err := w.Close(); err != nil {
		return "", "", fmt.Errorf("packing the command: %w", err)
	}
	if err := compressed.Close(); err != nil {
		return "", "", fmt.Errorf("packing the command: %w", err)
	}
	name = fmt.Sprintf("eksnode_v%s_linux_%s.tar.gz", releaseVersion, runtime.GOARCH)
	return name, sum(packed.Bytes()), os.WriteFile(filepath.Join(folder, name), packed.Bytes(), 0o600)
}

func sum(text []byte) string {
	digest := sha256.Sum256(text)
	return hex.EncodeToString(digest[:])
}
