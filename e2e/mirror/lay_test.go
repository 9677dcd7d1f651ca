package mirror

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The SHA-256 sums of "kubelet", "provider" and "plugins", by sha256sum.
const (
	kubeletSum  = "1ca4bc7eb9b3d6f1e205da9cfab437c89d3760d0765a29a6bcbccf4ad51a2cb1"
	providerSum = "5c4c1964340aca5b65393bbe9d3249cdd71be26665b3320ad694f034f2743283"
	pluginsSum  = "92cd10e6b8b068a931196d1d73a032543d5ca1a5bf445e27a1af74258254517c"
)

func TestLay(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "mirror")
	require.NoError(t, Lay(t.Context(), folder, three(t)...))
	assert.Equal(t, map[string]string{
		"dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet":                                                           "kubelet",
		"dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet.sha256":                                                    kubeletSum,
		"artifacts.k8s.io/binaries/cloud-provider-aws/v1.34.3/linux/amd64/ecr-credential-provider-linux-amd64":        "provider",
		"artifacts.k8s.io/binaries/cloud-provider-aws/v1.34.3/linux/amd64/ecr-credential-provider-linux-amd64.sha256": providerSum + "\n",
		"github.com/containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-amd64-v1.9.1.tgz":          "plugins",
		"github.com/containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-amd64-v1.9.1.tgz.sha256":   pluginsSum + "  cni-plugins-linux-amd64-v1.9.1.tgz\n",
	}, tree(t, folder), "no unfinished file is left")
}

// three returns the assets of a node, with tiny contents.
func three(t *testing.T) []Asset {
	t.Helper()
	return []Asset{
		Kubelet("1.34.4", "amd64", write(t, "kubelet")),
		CredentialProvider("1.34.3", "amd64", write(t, "provider")),
		CNIPlugins("1.9.1", "amd64", write(t, "plugins")),
	}
}

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// tree returns all files below folder with their contents, and checks that all
// users may read them.
func tree(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		assert.Equal(t, fs.FileMode(0o644), info.Mode(), path)
		content, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, folder+"/")] = string(content)
		return err
	}))
	return all
}
