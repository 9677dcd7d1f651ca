package eksnode

import (
	"maps"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/plugin/validate"
)

// checkChoice fails when the fields leave a node without something that the node
// needs. It waits until all fields that decide are known.
func (c *Config) checkChoice() error {
	decide := slices.Concat([]string{c.KubernetesVersion, c.Source, c.EKSBuildDate, c.LockFile, c.Distro, c.Containerd},
		slices.Collect(maps.Values(c.Versions)), slices.Collect(maps.Values(c.Checksums)))
	if slices.ContainsFunc(decide, validate.IsUnknown) {
		return nil
	}
	spec := c.known()
	spec.AllowHTTP = true // a value that is not known yet looks like false; the build itself refuses
	return spec.Choosable()
}
