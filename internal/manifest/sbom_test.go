package manifest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// described returns a manifest with one package, one asset and one image.
func described() *Manifest {
	return &Manifest{
		Tool: "0.2.0", Distro: "debian", DistroVersion: "12", Arch: "amd64", KubernetesVersion: "1.34.4", PackageManager: "apt",
		Packages: []Package{{"containerd", "1.6.20~ds1-1+deb12u1"}},
		Assets:   []Asset{{ID: "kubelet", Version: "1.34.4", URL: "https://dl.k8s.io/kubelet", Size: 7, SHA256: strings.Repeat("a", 64)}},
		Images:   []Image{{Name: "registry.k8s.io/pause:3.10", Digest: "sha256:" + strings.Repeat("b", 64)}},
	}
}

func TestSBOMIsCycloneDX(t *testing.T) {
	text, err := described().SBOM()
	require.NoError(t, err)
	assert.Equal(t, `{
  "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
  "bomFormat": "CycloneDX",
  "specVersion": "1.5",
  "serialNumber": "{serial}",
  "version": 1,
  "metadata": {
    "tools": {
      "components": [
        {
          "type": "application",
          "name": "eksnode",
          "version": "0.2.0"
        }
      ]
    },
    "component": {
      "bom-ref": "image",
      "type": "operating-system",
      "name": "debian",
      "version": "12"
    }
  },
  "components": [
    {
      "bom-ref": "library/containerd",
      "type": "library",
      "name": "containerd",
      "version": "1.6.20~ds1-1+deb12u1",
      "purl": "pkg:deb/debian/containerd@1.6.20~ds1-1%2Bdeb12u1?distro=debian-12"
    },
    {
      "bom-ref": "application/kubelet",
      "type": "application",
      "name": "kubelet",
      "version": "1.34.4",
      "hashes": [
        {
          "alg": "SHA-256",
          "content": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        }
      ],
      "purl": "pkg:generic/kubelet@1.34.4?checksum=sha256%3Aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa&download_url=https%3A%2F%2Fdl.k8s.io%2Fkubelet",
      "externalReferences": [
        {
          "url": "https://dl.k8s.io/kubelet",
          "type": "distribution"
        }
      ]
    },
    {
      "bom-ref": "container/registry.k8s.io/pause",
      "type": "container",
      "name": "registry.k8s.io/pause",
      "version": "3.10",
      "hashes": [
        {
          "alg": "SHA-256",
          "content": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
        }
      ],
      "purl": "pkg:oci/pause@sha256%3Abbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb?repository_url=registry.k8s.io%2Fpause&tag=3.10"
    }
  ]
}
`, replaceSerial(t, string(text)))
	again, err := described().SBOM()
	require.NoError(t, err)
	assert.Equal(t, string(text), string(again))
	changed := described()
	changed.Packages = []Package{{"bash", "5.2"}, {"apt", "2.6"}}
	more, err := changed.SBOM()
	require.NoError(t, err)
	assert.Less(t, strings.Index(string(more), "library/apt"), strings.Index(string(more), "library/bash"))
	assert.NotEqual(t, serialOf(t, string(text)), serialOf(t, string(more)))
}

func serialOf(t *testing.T, text string) string {
	t.Helper()
	_, rest, _ := strings.Cut(text, `"serialNumber": "`)
	serial, _, _ := strings.Cut(rest, `"`)
	require.Regexp(t, `^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, serial)
	return serial
}

func replaceSerial(t *testing.T, text string) string {
	t.Helper()
	return strings.Replace(text, serialOf(t, text), "{serial}", 1)
}

func TestPackagesWithoutAPackageManagerHaveNoPURL(t *testing.T) {
	m := described()
	m.PackageManager = "none"
	assert.Empty(t, m.packageURL(m.Packages[0]))
	repository, tag := splitImage("localhost:5000/pause")
	assert.Equal(t, []string{"localhost:5000/pause", ""}, []string{repository, tag})
}
