package eksnode

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/plugin/validate"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

// Where downloads are made.
const (
	onMachine    = "machine"
	onPackerHost = "packer-host"
)

func (c *Config) onPackerHost() bool { return c.DownloadOn == onPackerHost }

// sent returns the spec for the machine, when all fields are known. It has no
// folder of the Packer host.
func (c *Config) sent() (provisioner.Spec, error) {
	spec := c.Spec
	if err := spec.Validate(); err != nil {
		return spec, err
	}
	if c.onPackerHost() && strings.HasPrefix(spec.SourceURL, "file://") {
		spec.SourceURL = ""
	}
	return spec, nil
}

// checkDownloads checks the fields for the Packer host.
func (c *Config) checkDownloads() error {
	errs := []error{validate.Home("cache_folder", &c.CacheFolder)}
	for i := range c.ImageArchives {
		errs = append(errs, validate.Home("image_archives", &c.ImageArchives[i]))
	}
	switch on := validate.Known(c.DownloadOn); on {
	case "", onMachine, onPackerHost:
	default:
		errs = append(errs, fmt.Errorf("download_on: %q is not known; known are %s, %s", on, onMachine, onPackerHost))
	}
	if c.DownloadOn == onPackerHost && strings.HasPrefix(c.SourceURL, "file://") && !validate.IsUnknown(c.SourceURL) {
		folder := strings.TrimPrefix(c.SourceURL, "file://")
		if st, err := os.Stat(folder); err != nil || !st.IsDir() {
			errs = append(errs, fmt.Errorf("source_url: %s is not a folder of the Packer host, whose it is with download_on = %q", folder, onPackerHost))
		}
	}
	errs = append(errs, c.Local.Check(c.Spec))
	for _, name := range validate.KnownOf(c.ImageArchives) {
		if st, err := os.Stat(name); err != nil || !st.Mode().IsRegular() {
			errs = append(errs, fmt.Errorf("image_archives: %s is not a file of the Packer host", name))
		}
	}
	return errors.Join(errs...)
}

// supply returns what a machine of an architecture may want from the Packer host.
func (c *Config) supply(arch string) (provisioner.Supply, error) {
	return c.Local.Supply(c.Spec, arch, awsapi.RegistryLogin(awsapi.Options{}))
}

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
