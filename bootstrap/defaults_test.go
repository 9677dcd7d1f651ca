//go:build linux

package bootstrap

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/render"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/imdstest"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
)

const imageDefaults = `{
  "spec": {
    "kubelet": {"config": {"containerLogMaxSize": "50Mi", "maxPods": 20, "evictionHard": {"memory.available": "7%"}}},
    "instance": {"environment": {"default": {"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "169.254.169.254", "no_proxy": "169.254.169.254"}}}
  },
  "maxConcurrentDownloads": 7, "keepUnpackedLayers": true
}`

func hasDefaults(t *testing.T, h *host.Host, text string) {
	t.Helper()
	require.NoError(t, h.Files.MkdirAll("/etc/eks/eksnode", 0o755))
	require.NoError(t, h.Files.WriteFile(manifest.DefaultsPath, []byte(text), host.Attributes{Mode: 0o644}))
}

func contentOf(t *testing.T, h *host.Host, name string) string {
	t.Helper()
	text, err := h.Content(name)
	require.NoError(t, err)
	return string(text)
}

func TestTheImagesSettingsAreUnderTheUserData(t *testing.T) {
	h, w := mounted(t), surround(t, imdstest.Typical())
	hasDefaults(t, h, imageDefaults)
	w.join(t, h, config(t, "a", "  kubelet: {config: {maxPods: 30}}\n"))
	assert.JSONEq(t, `{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"containerLogMaxSize": "50Mi", "maxPods": 30, "evictionHard": {"memory.available": "7%"}}`, contentOf(t, h, render.KubeletDropIn))
	containerd := contentOf(t, h, render.ContainerdConfig)
	assert.Contains(t, containerd, "max_concurrent_downloads = 7\n")
	assert.Contains(t, containerd, "discard_unpacked_layers = false\n")
	environment := contentOf(t, h, render.SystemEnvironment)
	assert.Contains(t, environment, `DefaultEnvironment="HTTPS_PROXY=http://proxy:3128"`)
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		assert.Contains(t, environment, `DefaultEnvironment="`+name+`=169.254.169.254,a.example,10.100.0.0/16"`)
	}

	w.join(t, h, config(t, "a", "  instance: {environment: {default: {NO_PROXY: x, HTTPS_PROXY: ''}}}\n"))
	environment = contentOf(t, h, render.SystemEnvironment)
	assert.Contains(t, environment, `DefaultEnvironment="NO_PROXY=x"`)
	assert.Contains(t, environment, `DefaultEnvironment="HTTPS_PROXY="`)
}

func TestTheImagesSettingsAreUnderTheArguments(t *testing.T) {
	h, w := mounted(t), surround(t, imdstest.Typical())
	hasDefaults(t, h, imageDefaults)
	w.call(t, h, given("a", "--service-ipv4-cidr", "10.7.0.0/16", "--kubelet-extra-args", "--max-pods=30")...)
	assert.Contains(t, contentOf(t, h, render.KubeletDropIn), `"maxPods": 20`)
	assert.Contains(t, contentOf(t, h, render.KubeletEnvironment), "--config-dir="+render.KubeletDropInFolder)
	assert.Contains(t, contentOf(t, h, render.ScriptExtraArguments), "--max-pods=30", "a flag is over every file")
	assert.Contains(t, contentOf(t, h, render.ContainerdConfig), "max_concurrent_downloads = 7\n")
	assert.Contains(t, contentOf(t, h, render.SystemEnvironment), `"NO_PROXY=169.254.169.254,a.example,10.7.0.0/16"`)
}

func TestDamagedSettingsOfTheImageAreAnError(t *testing.T) {
	for text, want := range map[string]string{
		"{":                           "reading the image's settings /etc/eks/eksnode/defaults.json: ",
		`{"spec": {"kubelets": {}}}`:  "kubelets",
		`{"maxConcurrentDownload":1}`: "did you mean maxConcurrentDownloads",
	} {
		h, w := mounted(t), surround(t, imdstest.Typical())
		hasDefaults(t, h, text)
		_, err := w.FromNodeConfig(t.Context(), h, config(t, "a", ""), "")
		require.ErrorContains(t, err, want)
	}
}

// An image with the SOCI snapshotter pulls in parallel, unless the user data says otherwise.
func TestSOCIOfTheImage(t *testing.T) {
	h := mounted(t)
	hasDefaults(t, h, `{"spec": {"featureGates": {"FastImagePull": true}}}`)
	d, err := readDefaults(h)
	require.NoError(t, err)
	for spec, want := range map[string]bool{"": true, "  featureGates: {FastImagePull: false}\n": false} {
		merged, err := d.under(config(t, "a", spec))
		require.NoError(t, err)
		assert.Equal(t, want, merged.Spec.Feature(nodeconfig.FastImagePull))
	}
}
