//go:build e2e

package offline_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	systems "github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// buildah builds the example, and the audit of its image finds nothing.
func TestContainerfile(t *testing.T) {
	b := open(t)
	require.NoError(t, systems.Install(b.Ctx, t.Output(), "buildah"))
	store := t.TempDir()
	buildah := func(args ...string) string {
		t.Helper()
		cmd := b.Resolving(append([]string{"buildah", "--root", filepath.Join(store, "root"), "--runroot", filepath.Join(store, "run"), "--storage-driver", "vfs"}, args...))
		out, err := cmd.Output()
		require.NoError(t, err, "%s", out)
		return strings.TrimSpace(string(out))
	}
	mounted := func(image string) (name, root string) {
		name = buildah("from", image)
		t.Cleanup(func() { buildah("rm", name) })
		return name, buildah("mount", name)
	}
	base, root := mounted("scratch")
	testkit.Run(t, "cp", "--archive", b.Root+"/.", root)
	buildah("commit", "--quiet", base, "localhost/base")

	folder := t.TempDir()
	testkit.Run(t, "cp", "../../examples/containerfile/Containerfile", lab.Eksnode(t), folder)
	t.Log(buildah("build", "--isolation", "chroot", "--network", "host", "--layers=false", "--tag", "localhost/node",
		"--build-arg", "BASE=localhost/base", "--build-arg", "KUBERNETES_VERSION="+lab.Kubelet,
		"--build-arg", "OPTIONS="+strings.Join(b.options[2:], " "), folder))
	_, root = mounted("localhost/node")
	for _, args := range [][]string{{"scrub", "--yes"}, {"audit"}} {
		testkit.Run(t, lab.Eksnode(t), append(args, "--root", root)...)
	}
	assert.FileExists(t, filepath.Join(root, "etc/eks/bootstrap.sh"))
}
