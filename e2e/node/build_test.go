//go:build e2e

package node_test

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// buildPlugin builds the plugin with the agents of both architectures in it,
// once for all tests, from the sources as they are now and without touching the
// work tree: the agents are laid over it.
var buildPlugin = sync.OnceValues(func() (string, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	// Another work tree's tests may run at the same time.
	tree := sha256.Sum256([]byte(root))
	folder := filepath.Join(cache, "eksnode", fmt.Sprintf("node-test-%x", tree[:8]))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	overlay := map[string]string{}
	for _, arch := range []string{"amd64", "arm64"} {
		agent := filepath.Join(folder, "agent-"+arch)
		if err := goBuild(root, "", arch, agent, "./cmd/eksnode"); err != nil {
			return "", err
		}
		if err := compress(agent); err != nil {
			return "", err
		}
		overlay[filepath.Join(root, "plugin/embedded/agents/eksnode-linux-"+arch+".gz")] = agent + ".gz"
	}
	text, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return "", err
	}
	laid := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(laid, text, 0o644); err != nil {
		return "", err
	}
	plugin := filepath.Join(folder, "packer-plugin-eksnode")
	return plugin, goBuild(root, laid, "", plugin, "./plugin")
})

func goBuild(root, overlay, arch, to, what string) error {
	args := []string{"build", "-trimpath", "-ldflags", "-s -w", "-o", to}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	environment := append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if arch != "" { // an agent, which is without what only a person's desk needs
		args = append(args, "-tags", "agent")
		environment = append(environment, "GOARCH="+arch)
	}
	cmd := exec.Command("go", append(args, what)...)
	cmd.Dir = root
	cmd.Env = environment
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w: %s", what, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// compress writes name.gz, which is what the plugin embeds.
func compress(name string) (err error) {
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(name + ".gz")
	if err != nil {
		return err
	}
	packed, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if err != nil {
		return errors.Join(err, out.Close())
	}
	_, err = io.Copy(packed, in)
	return errors.Join(err, packed.Close(), out.Close())
}
