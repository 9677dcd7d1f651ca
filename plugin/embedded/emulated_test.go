//go:build e2e

package embedded

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

// program unpacks the agent of an architecture.
func program(t *testing.T, arch string) string {
	t.Helper()
	packed, err := Agent(arch)
	require.NoError(t, err)
	z, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	content, err := io.ReadAll(z)
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "eksnode-"+arch)
	require.NoError(t, os.WriteFile(name, content, 0o700))
	return name
}

// image returns an image root with leftover state and with files to keep.
func image(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	hosttest.Lay(t, root, map[string]string{
		"etc/os-release": "ID=debian\nVERSION_ID=12\n", "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/hostname": "ip-10-0-1-2\n",
		"etc/machine-id": "0123456789abcdef0123456789abcdef\n", "root/.ssh/authorized_keys": "ssh-ed25519 AAAA packer\n",
		"var/lib/kubelet/pki/kubelet-server-current.pem": "secret\n", "var/lib/cloud/instance/user-data.txt": "#!/bin/sh\n",
		"var/log/syslog": "x\n", "usr/bin/kubelet": "kubelet\n", "usr/bin/containerd": "containerd\n", "usr/bin/runc": "runc\n",
	})
	return root
}

// answer is the output of a run, with FOLDER instead of its working folder, and the
// exit code.
type answer struct {
	out  string
	code int
}

func run(t *testing.T, folder string, command ...string) answer {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		require.NoError(t, err)
	}
	return answer{strings.ReplaceAll(string(out), folder, "FOLDER"), cmd.ProcessState.ExitCode()}
}

// On equal image roots, the emulated agent for arm64 has the same output and result
// as the agent for this machine.
func TestTheARM64AgentEqualsTheNativeAgent(t *testing.T) {
	require.NoError(t, base.Install(t.Context(), t.Output(), "qemu-user-static"))
	foreign, native := program(t, "arm64"), program(t, runtime.GOARCH)
	file, err := elf.Open(foreign)
	require.NoError(t, err)
	assert.Equal(t, elf.EM_AARCH64, file.Machine)
	require.NoError(t, file.Close())

	config := filepath.Join(t.TempDir(), "node.yaml")
	require.NoError(t, os.WriteFile(config, []byte("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {clutser: {}}\n"), 0o600))
	here, there := image(t), image(t)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"version"}, 0, "\n"},
		{[]string{"audit", "--root", "."}, 1, "authorized-keys"},
		{[]string{"scrub", "--root", ".", "--yes", "--skip-rules", "not-a-node"}, 0, "authorized-keys: 1 action"},
		{[]string{"audit", "--root", ".", "--skip-rules", "not-a-node"}, 0, "PASS"},
		{[]string{"nodeadm", "config", "check", "--config-source", "file://" + config}, 1, "did you mean cluster?"},
		{[]string{"provision"}, 2, "--kubernetes-version is missing"},
	} {
		emulated := run(t, there, append([]string{"/usr/bin/qemu-aarch64-static", foreign}, c.args...)...)
		assert.Equal(t, c.code, emulated.code, "%q: %s", c.args, emulated.out)
		assert.Contains(t, emulated.out, c.says, "%q", c.args)
		if c.args[0] != "scrub" { // the output of scrub has durations
			assert.Equal(t, run(t, here, append([]string{native}, c.args...)...), emulated, "%q", c.args)
			continue
		}
		assert.Equal(t, c.code, run(t, here, append([]string{native}, c.args...)...).code)
	}
	assert.Equal(t, testkit.TreeOf(t, here), testkit.TreeOf(t, there), "both agents must leave the same files")
}
