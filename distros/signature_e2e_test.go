//go:build e2e

package distros

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
)

func (s signer) detached(t *testing.T, h *host.Host, file, signature string, more ...string) {
	t.Helper()
	run(t, h, append(append([]string{"gpg", "--homedir", s.home, "--batch", "--yes", "--output", signature}, more...), "--detach-sign", file)...)
}

// spoiled inverts a bit in the last byte of a file.
func spoiled(t *testing.T, file string) {
	t.Helper()
	text := []byte(testkit.Content(t, file))
	text[len(text)-1] ^= 1
	require.NoError(t, os.WriteFile(file, text, 0o644))
}
