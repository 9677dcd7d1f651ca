package eksnode

import (
	"github.com/hashicorp/packer-plugin-sdk/common"
	"github.com/hashicorp/packer-plugin-sdk/template/interpolate"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/plugin/remote"
	"github.com/eksnode/packer-plugin-eksnode/plugin/validate"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

// Config holds the fields of a `provisioner "eksnode"` block: those of the spec,
// and those that concern the Packer host.
type Config struct {
	common.PackerConfig `mapstructure:",squash"`
	remote.Config       `mapstructure:",squash"`
	provisioner.Spec    `mapstructure:",squash"`

	// Where downloads run, `machine` or `packer-host`. With `packer-host`, the
	// Packer host caches the downloads and sends them to the machine through
	// Packer's connection; the machine needs a network only for packages. A
	// folder in `source_url` is then on the Packer host. Defaults to `machine`.
	DownloadOn        string `mapstructure:"download_on"`
	provisioner.Local `mapstructure:",squash"`

	ctx interpolate.Context
}

// known returns the spec without the fields that are not known yet, and without
// the fields that depend on them.
func (c *Config) known() provisioner.Spec {
	s := validate.KnownFields(c.Spec)
	if validate.IsUnknown(c.Containerd) || validate.IsUnknown(c.KubernetesVersion) { // which archives there are
		for _, a := range asset.Table() {
			if a.Chosen {
				delete(s.Versions, a.ID)
				delete(s.Checksums, a.ID)
			}
		}
	}
	if validate.IsUnknown(c.SourceURL) {
		s.AllowHTTP = false
	}
	if validate.IsUnknown(c.LockFile) { // whether the lock has the images
		s.Containers = provisioner.Containers{}
	}
	if validate.IsUnknown(c.Source) || validate.IsUnknown(c.LockFile) { // whether the day has an effect
		s.EKSBuildDate = ""
	}
	return s
}
