package asset

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func row(t *testing.T, id string) Asset {
	t.Helper()
	i := slices.IndexFunc(Table(), func(a Asset) bool { return a.ID == id })
	require.GreaterOrEqual(t, i, 0, id)
	return Table()[i]
}

func TestUpstreamAddressesAndTargets(t *testing.T) {
	tests := []struct{ id, arch, url, sum, target, version string }{
		{
			"kubelet", "amd64",
			"https://dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet",
			"https://dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet.sha256",
			"/usr/bin/kubelet", "1.34.4",
		},
		{
			"ecr-credential-provider", "arm64",
			"https://artifacts.k8s.io/binaries/cloud-provider-aws/v1.37.0/linux/arm64/ecr-credential-provider-linux-arm64",
			"https://artifacts.k8s.io/binaries/cloud-provider-aws/v1.37.0/linux/arm64/ecr-credential-provider-linux-arm64.sha256",
			"/etc/eks/image-credential-provider/ecr-credential-provider", "1.37.0",
		},
		{
			"cni-plugins", "amd64",
			"https://github.com/containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-amd64-v1.9.1.tgz",
			"https://github.com/containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-amd64-v1.9.1.tgz.sha256",
			"/opt/cni/bin", "1.9.1",
		},
		{
			"containerd", "arm64",
			"https://github.com/containerd/containerd/releases/download/v2.3.7/containerd-static-2.3.7-linux-arm64.tar.gz",
			"https://github.com/containerd/containerd/releases/download/v2.3.7/containerd-static-2.3.7-linux-arm64.tar.gz.sha256sum",
			"/usr/local", "2.3.7",
		},
		{
			"runc", "amd64",
			"https://github.com/opencontainers/runc/releases/download/v1.5.2/runc.amd64",
			"https://github.com/opencontainers/runc/releases/download/v1.5.2/runc.sha256sum",
			"/usr/local/sbin/runc", "1.5.2",
		},
	}
	require.Len(t, tests, len(Table()), "every asset must have a case")
	for _, test := range tests {
		t.Run(test.id, func(t *testing.T) {
			d, err := row(t, test.id).For(Choice{Kubernetes: "1.34.4", Arch: test.arch, Commands: "/usr/bin"})
			require.NoError(t, err)
			assert.Equal(t, test.url, d.URL)
			assert.Equal(t, test.sum, d.SumURL)
			assert.Equal(t, test.target, d.Target)
			assert.Equal(t, test.version, d.Version)
			assert.Empty(t, d.Mirror)
		})
	}
}

func TestMirrorAddresses(t *testing.T) {
	for source, want := range map[string]string{
		"http://10.0.0.1:8080":                 "http://10.0.0.1:8080/dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet",
		"http://10.0.0.1:8080/":                "http://10.0.0.1:8080/dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet",
		"https://mirror.example/a/b/":          "https://mirror.example/a/b/dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet",
		"https://me:secret@mirror.example/%20": "https://me:secret@mirror.example/%20/dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet",
	} {
		d, err := row(t, "kubelet").For(Choice{Kubernetes: "1.34.4", Arch: "amd64", Commands: "/usr/bin", Source: source, AllowHTTP: true})
		require.NoError(t, err)
		assert.Equal(t, want, d.URL)
		assert.Equal(t, want+".sha256", d.SumURL)
		assert.NotContains(t, d.Place()+d.Mirror, "secret")
	}
}

func TestVersionAndChecksumOverrides(t *testing.T) {
	sum := strings.Repeat("AB", 32)
	d, err := row(t, "cni-plugins").For(Choice{Kubernetes: "1.34.4", Arch: "amd64", Version: "1.6.2", SHA256: sum})
	require.NoError(t, err)
	assert.Equal(t, "1.6.2", d.Version)
	assert.Contains(t, d.URL, "/v1.6.2/cni-plugins-linux-amd64-v1.6.2.tgz")
	assert.Equal(t, strings.ToLower(sum), d.SHA256)
}

func TestEveryRowIsComplete(t *testing.T) {
	for _, a := range Table() {
		t.Run(a.ID, func(t *testing.T) {
			assert.NotEmpty(t, a.Why)
			assert.Contains(t, []SumForm{Bare, Listed}, a.SumForm)
			assert.Contains(t, []Kind{Program, TarGz}, a.Kind)
			assert.True(t, strings.HasPrefix(a.Target, "/") || strings.HasPrefix(a.Target, "{commands}/"))
			for _, address := range []string{a.URL, a.Sum} {
				u, err := url.Parse(strings.NewReplacer("{version}", "1.2.3", "{arch}", "amd64").Replace(address))
				require.NoError(t, err)
				assert.Equal(t, "https", u.Scheme)
				assert.NotContains(t, u.String(), "{")
				assert.Contains(t, address, "{version}")
			}
			assert.Contains(t, a.URL, "{arch}")
		})
	}
}
