package eksnode

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/plugin/validate"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

// readLock reads the lock file on the Packer host: its content travels to the
// machine.
func (c *Config) readLock() error {
	if err := validate.Home("lock_file", &c.LockFile); err != nil {
		return err
	}
	if c.LockFile == "" || validate.IsUnknown(c.LockFile) {
		return nil
	}
	data, err := os.ReadFile(c.LockFile)
	if err != nil {
		return fmt.Errorf(`lock_file: %w; "eksnode lock" makes one`, err)
	}
	if c.lock, err = asset.ParseLock(data); err != nil {
		return fmt.Errorf("lock_file %s: %w", c.LockFile, err)
	}
	return nil
}

// sources is where everything comes from, in the agent's words.
func (c *Config) sources() provisioner.Sources {
	return provisioner.Sources{Source: c.Source, EKSBuildDate: c.EKSBuildDate, Lock: c.lock, SBOM: c.SBOM}
}

// knownSources is the same without what is not known yet.
func (c *Config) knownSources() provisioner.Sources {
	s := c.sources()
	s.Source = validate.Known(s.Source)
	s.EKSBuildDate = validate.Known(s.EKSBuildDate)
	if validate.IsUnknown(c.Source) || validate.IsUnknown(c.LockFile) {
		s.EKSBuildDate = "" // whether it has an effect is not known either
	}
	return s
}

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
