package eksnode

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
)

const pause = "registry.k8s.io/pause:3.10@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

func TestPathsOnThePackerHostAreChecked(t *testing.T) {
	var p Provisioner
	folder := t.TempDir()
	require.NoError(t, p.Prepare(fields{"kubernetes_version": "1.34.4", "download_on": "packer-host", "source_url": "file://" + folder}))
	spec, err := p.config.sent()
	require.NoError(t, err)
	assert.Empty(t, spec.SourceURL, "the folder must not be sent to the machine")
	require.NoError(t, p.Prepare(fields{"kubernetes_version": "1.34.4", "download_on": "packer-host", "source_url": "https://mirror.example"}))
	spec, err = p.config.sent()
	require.NoError(t, err)
	assert.Equal(t, "https://mirror.example", spec.SourceURL)
	gone := filepath.Join(folder, "gone")
	for name, test := range map[string]struct {
		block fields
		want  string
	}{
		"a missing folder": {fields{"download_on": "packer-host", "source_url": "file://" + gone},
			"source_url: " + gone + ` is not a folder of the Packer host, whose it is with download_on = "packer-host"`},
		"a missing archive": {fields{"pause_image": pause, "image_archives": []any{gone}}, "image_archives: " + gone + " is not a file of the Packer host"},
	} {
		t.Run(name, func(t *testing.T) {
			test.block["kubernetes_version"] = "1.34.4"
			require.EqualError(t, p.Prepare(test.block), "1 error(s) occurred:\n\n* "+test.want)
		})
	}
	require.NoError(t, p.Prepare(fields{"kubernetes_version": "1.34.4", "source_url": "file://" + gone}), "a folder on the builder machine cannot be checked")
	archive := filepath.Join(folder, "images.tar")
	require.NoError(t, os.WriteFile(archive, nil, 0o600))
	require.NoError(t, p.Prepare(fields{"kubernetes_version": "1.34.4", "images": []any{}, "image_archives": []any{archive}}), "archives with images that are still unknown must be accepted")
}

// A machine gets only the assets and images that the template names.
func TestMachinesGetOnlyNamedDownloads(t *testing.T) {
	var p Provisioner
	require.NoError(t, p.Prepare(fields{"kubernetes_version": "1.34.4", "pause_image": pause, "cache_folder": t.TempDir()}))
	s, err := p.config.supply("amd64")
	require.NoError(t, err)
	for _, w := range []asset.Wanted{{Asset: "../../etc/shadow"}, {Asset: "file:///etc/shadow"}, {Image: strings.Replace(pause, "3.10", "3.9", 1)}} {
		_, err := s.Supply(t.Context(), w)
		require.Error(t, err)
		assert.True(t, strings.Contains(err.Error(), "there is no such asset") || strings.Contains(err.Error(), "which the template does not name"), err)
	}
}
