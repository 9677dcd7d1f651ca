//go:build linux

package distros

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// Downloads of the package managers are removed. Installed packages,
// configuration and databases stay.
func TestCachesAreRemovedAndPackagesStay(t *testing.T) {
	var caches map[string]struct{ Gone, Stays []string }
	require.NoError(t, yaml.Unmarshal([]byte(testkit.Content(t, "testdata/caches.yaml")), &caches))
	for id, c := range caches {
		t.Run(id, func(t *testing.T) {
			root := t.TempDir()
			for _, name := range append(append([]string{"etc/passwd"}, c.Gone...), c.Stays...) {
				hosttest.Lay(t, root, map[string]string{name: "x"})
			}
			h := hosttest.Mounted(t, root)
			d, err := ByID(id)
			require.NoError(t, err)
			items, err := scrub.Spec{Only: []string{"packages"}}.Items(scrub.ToScrub, d.ScrubRules())
			require.NoError(t, err)
			_, err = plan.Apply(t.Context(), h, items, nil)
			require.NoError(t, err)
			for _, name := range c.Gone {
				assert.NoFileExists(t, filepath.Join(root, name))
			}
			for _, name := range c.Stays {
				assert.FileExists(t, filepath.Join(root, name))
			}
		})
	}
}
