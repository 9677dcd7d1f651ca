package tools

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFind(t *testing.T) {
	for _, test := range []struct {
		name, version string
		want          string
		wantErr       string
	}{
		{name: "packer", version: "1.12.0", want: "1.12.0"},
		{name: "packer", want: "1.15.0"},
		{name: "cni-plugins", want: "1.9.1"},
		{name: "packer", version: "1.13.0", wantErr: "finding packer 1.13.0: unknown version; must be one of 1.15.0, 1.12.0"},
		{name: "docker", wantErr: `finding "docker": unknown tool; must be one of packer, packer-plugin-amazon, packer-plugin-qemu, kubelet, ecr-credential-provider, cni-plugins, containerd, runc, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, kubeadm, etcd, kube-bench, critest, toxiproxy-server, gitleaks`},
	} {
		t.Run(test.name+"@"+test.version, func(t *testing.T) {
			tool, version, err := Find(test.name, test.version)
			if test.wantErr != "" {
				require.EqualError(t, err, test.wantErr)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, test.name, tool.Name)
			assert.Equal(t, test.want, version)
		})
	}
}

func TestKubernetesVersionFromEnvironment(t *testing.T) {
	for asked, want := range map[string]string{"": "1.34.4", "1.35.0": "1.35.0", "1.99.0": "1.34.4"} {
		t.Setenv("KUBERNETES", asked)
		_, got, err := Find(NameKubelet, "")
		require.NoError(t, err)
		assert.Equal(t, want, got)
		_, got, err = Find(NameKubelet, "1.34.4")
		require.NoError(t, err)
		assert.Equal(t, "1.34.4", got)
	}
}

// The builder relies on these properties of every row.
func TestTableIsComplete(t *testing.T) {
	for _, tool := range Table() {
		t.Run(tool.Name, func(t *testing.T) {
			require.NotEmpty(t, tool.Versions)
			require.NotEmpty(t, tool.packages)
			assert.NotEmpty(t, tool.module)
			assert.NotEmpty(t, tool.output(tool.Versions[0], "amd64"))
			assert.Contains(t, tool.probe.want(tool.Versions[0]), tool.Versions[0])
			assert.True(t, len(tool.packages) == 1 || tool.archive != nil && !tool.tests, "several programs need an archive")
		})
	}
}

func TestBuildArguments(t *testing.T) {
	tool, version, err := Find(NameKubelet, "1.34.4")
	require.NoError(t, err)
	got := builder{tool: tool, version: version, arch: "arm64"}.arguments("/out")
	assert.Equal(t, []string{
		"build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w" +
			" -X k8s.io/component-base/version.gitVersion=v1.34.4" +
			" -X k8s.io/component-base/version.gitMajor=1" +
			" -X k8s.io/component-base/version.gitMinor=34" +
			" -X k8s.io/client-go/pkg/version.gitVersion=v1.34.4" +
			" -X k8s.io/client-go/pkg/version.gitMajor=1" +
			" -X k8s.io/client-go/pkg/version.gitMinor=34",
		"-tags", "selinux,notest,grpcnotrace",
		"-o", "/out/", "k8s.io/kubernetes/cmd/kubelet",
	}, got)
}

// A program that consists of a package's tests is compiled with go test -c.
func TestBuildArgumentsOfTestPrograms(t *testing.T) {
	tool, version, err := Find(NameCritest, "")
	require.NoError(t, err)
	one := builder{tool: tool, version: version, arch: "amd64"}
	assert.Equal(t, []string{
		"test", "-c", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X sigs.k8s.io/cri-tools/pkg/version.Version=1.36.0",
		"-o", "/out/", "sigs.k8s.io/cri-tools/cmd/critest",
	}, one.arguments("/out"))
}

// Builds with different results must have different keys in the cache.
func TestCacheKeysDifferByBuildArguments(t *testing.T) {
	packer, _, err := Find(NamePacker, "")
	require.NoError(t, err)
	tagged := packer
	tagged.tags = []string{"extra"}
	keys := map[string]bool{}
	for _, one := range []builder{
		{tool: packer, version: "1.15.0", arch: "amd64"},
		{tool: packer, version: "1.12.0", arch: "amd64"},
		{tool: packer, version: "1.15.0", arch: "arm64"},
		{tool: tagged, version: "1.15.0", arch: "amd64"},
	} {
		keys[one.key("go1.26.0")] = true
		keys[one.key("go1.26.1")] = true
	}
	assert.Len(t, keys, 8)
}
