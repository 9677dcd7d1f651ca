//go:build e2e

package ecr

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
)

// These environment variables name folders that are prepared while the network
// is available: the registry, and the command.
const (
	registryProgram = "EKSNODE_TEST_REGISTRY"
	eksnodeProgram  = "EKSNODE_TEST_COMMAND"
)

// TestMain also makes the certificate and the proxy, because Go reads their
// environment variables only once.
func TestMain(m *testing.M) {
	if os.Getenv(registryProgram) == "" {
		folder, err := os.MkdirTemp("", "eksnode-ecr-")
		if err == nil {
			err = build(context.Background(), folder)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		code := aws.Alone(m.Run)
		_ = os.RemoveAll(folder) // the folder is temporary
		os.Exit(code)
	}
	os.Exit(aws.Alone(func() int {
		if err := prepare(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}))
}

// build unpacks Debian's registry. It does not install the package, because
// installing would start the service.
func build(ctx context.Context, folder string) error {
	registry, command := filepath.Join(folder, "registry"), filepath.Join(folder, "eksnode")
	script := `set -eu
chmod 0755 "$1"; cd "$1"
apt-get download -qq docker-registry 2>/dev/null || { apt-get update -qq; apt-get download -qq docker-registry; }
dpkg -x docker-registry_*.deb unpacked
mv unpacked/usr/bin/docker-registry registry`
	for _, argv := range [][]string{
		{"sh", "-c", script, "sh", folder},
		{"go", "build", "-o", command, "github.com/eksnode/packer-plugin-eksnode/cmd/eksnode"},
	} {
		if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", argv, err, out)
		}
	}
	for name, value := range map[string]string{registryProgram: registry, eksnodeProgram: command} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}
