package mirror

import (
	"context"
	"errors"
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
	}, tree(t, folder), "and no unfinished file")

	// A second time over what is there, which may have been changed.
	place := filepath.Join(folder, "dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet")
	require.NoError(t, os.WriteFile(place, []byte("changed"), 0o644))
	require.NoError(t, Lay(t.Context(), folder, three(t)...))
	assert.Equal(t, "kubelet", tree(t, folder)["dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet"])
}

// runc and others list all files of a release in one checksum file.
func TestLaySharesAChecksumFile(t *testing.T) {
	folder := t.TempDir()
	base := "https://github.com/opencontainers/runc/releases/download/v1.3.0/"
	require.NoError(t, Lay(t.Context(), folder,
		Asset{File: write(t, "kubelet"), URL: base + "runc.amd64", SumURL: base + "runc.sha256sum", SumForm: Listed},
		Asset{File: write(t, "plugins"), URL: base + "runc.arm64", SumURL: base + "runc.sha256sum", SumForm: Listed},
		Asset{File: write(t, "signature"), URL: base + "runc.amd64.asc"},
	))
	under := "github.com/opencontainers/runc/releases/download/v1.3.0/"
	assert.Equal(t, map[string]string{
		under + "runc.amd64":     "kubelet",
		under + "runc.arm64":     "plugins",
		under + "runc.amd64.asc": "signature",
		under + "runc.sha256sum": kubeletSum + "  runc.amd64\n" + pluginsSum + "  runc.arm64\n",
	}, tree(t, folder))
}

func TestLayRefuses(t *testing.T) {
	a, b := write(t, "a"), write(t, "b")
	for _, test := range []struct {
		name    string
		assets  []Asset
		wantErr string
	}{
		{
			"the same place twice", []Asset{{File: a, URL: "https://h/x"}, {File: b, URL: "https://h/x"}},
			"planning the mirror: placing h/x: both " + a + " and " + b + " are meant for it",
		},
		{
			"a checksum over a file", []Asset{{File: a, URL: "https://h/x"}, {File: b, URL: "https://h/y", SumURL: "https://h/x", SumForm: Bare}},
			"planning the mirror: placing h/x: both " + a + " and a checksum are meant for it",
		},
		{
			"no form", []Asset{{File: a, URL: "https://h/x", SumURL: "https://h/x.sha256"}},
			`planning the mirror: placing h/x.sha256: unknown form of checksum file ""`,
		},
		{
			"no file", []Asset{{File: "/nowhere/f", URL: "https://h/x", SumURL: "https://h/x.sha256", SumForm: Bare}},
			"planning the mirror: opening an asset: open /nowhere/f: no such file or directory",
		},
		{
			"a bad address", []Asset{{File: a, URL: "ftp://h/x"}},
			"planning the mirror: placing ftp://h/x in the mirror: it must be https://HOST/PATH",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "mirror")
			require.EqualError(t, Lay(t.Context(), folder, test.assets...), test.wantErr)
			assert.NoDirExists(t, folder)
		})
	}
}

func TestLayCanBeInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the user lost patience"))
	err := Lay(ctx, t.TempDir(), three(t)...)
	require.ErrorContains(t, err, "the user lost patience")
}

func TestHash(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	require.NoError(t, Lay(t.Context(), one, three(t)...))
	require.NoError(t, Lay(t.Context(), two, three(t)...))
	first, second := hash(t, one), hash(t, two)
	assert.Equal(t, first, second, "neither the folder nor the files' times matter")
	assert.Regexp(t, "^[0-9a-f]{64}$", first)

	sum := filepath.Join(two, "dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet.sha256")
	require.NoError(t, os.Rename(sum, sum+"x"))
	assert.NotEqual(t, first, hash(t, two), "names count")
	require.NoError(t, os.WriteFile(sum, []byte("other"), 0o644))
	require.NoError(t, os.Remove(sum+"x"))
	assert.NotEqual(t, first, hash(t, two), "contents count")
}

// three answers the assets of a node, with tiny contents.
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

func hash(t *testing.T, folder string) string {
	t.Helper()
	sum, err := Hash(folder)
	require.NoError(t, err)
	return sum
}

// tree answers all files below folder with their contents, and checks that
// everybody may read them.
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
