package eksnode

import (
	"maps"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/plugin/validate"
)

// checkChoice says why the fields together leave a node without something it
// needs, as soon as all that decide it are known.
func (c *Config) checkChoice() error {
	decide := slices.Concat([]string{c.KubernetesVersion, c.Source, c.EKSBuildDate, c.LockFile},
		slices.Collect(maps.Values(c.Versions)), slices.Collect(maps.Values(c.Checksums)))
	if slices.ContainsFunc(decide, validate.IsUnknown) {
		return nil
	}
	return c.known().Choosable()
}
