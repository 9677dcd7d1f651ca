package mirror

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAssets(t *testing.T) {
	for _, test := range []struct {
		name        string
		asset       Asset
		url, sumURL string
	}{
		{
			"kubelet", Kubelet("1.34.4", "amd64", "f"),
			"https://dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet",
			"https://dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet.sha256",
		},
		{
			"ecr-credential-provider", CredentialProvider("1.34.3", "arm64", "f"),
			"https://artifacts.k8s.io/binaries/cloud-provider-aws/v1.34.3/linux/arm64/ecr-credential-provider-linux-arm64",
			"https://artifacts.k8s.io/binaries/cloud-provider-aws/v1.34.3/linux/arm64/ecr-credential-provider-linux-arm64.sha256",
		},
		{
			"cni-plugins", CNIPlugins("1.9.1", "amd64", "f"),
			"https://github.com/containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-amd64-v1.9.1.tgz",
			"https://github.com/containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-amd64-v1.9.1.tgz.sha256",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.url, test.asset.URL)
			assert.Equal(t, test.sumURL, test.asset.SumURL)
			assert.Equal(t, "f", test.asset.File)
		})
	}
}

func TestPlace(t *testing.T) {
	for _, test := range []struct{ address, want, wantErr string }{
		{address: "https://dl.k8s.io/release/v1/kubelet", want: "dl.k8s.io/release/v1/kubelet"},
		{address: "https://dl.k8s.io:8443/x", want: "dl.k8s.io:8443/x"},
		{address: "http://dl.k8s.io/x", wantErr: "placing http://dl.k8s.io/x in the mirror: must be https://HOST/PATH"},
		{address: "/etc/passwd", wantErr: "placing /etc/passwd in the mirror: must be https://HOST/PATH"},
		{address: "https://h/x?y=z", wantErr: "placing https://h/x?y=z in the mirror: must be https://HOST/PATH"},
		{address: "https://h", wantErr: "placing https://h in the mirror: the path must name a file, without dots and doubled slashes"},
		{address: "https://h/a/", wantErr: "placing https://h/a/ in the mirror: the path must name a file, without dots and doubled slashes"},
		{address: "https://h/../../x", wantErr: "placing https://h/../../x in the mirror: the path must name a file, without dots and doubled slashes"},
		{address: "https://h/%2e%2e/x", wantErr: "placing https://h/%2e%2e/x in the mirror: the path must name a file, without dots and doubled slashes"},
		{address: "https://../x", wantErr: "placing https://../x in the mirror: the path must name a file, without dots and doubled slashes"},
		{address: "https://h/\x7f", wantErr: `placing in the mirror: parse "https://h/\x7f": net/url: invalid control character in URL`},
	} {
		t.Run(test.address, func(t *testing.T) {
			got, err := Place(test.address)
			if test.wantErr != "" {
				require.EqualError(t, err, test.wantErr)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, test.want, got)
		})
	}
}
