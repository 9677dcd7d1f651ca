package eksnode

//go:generate go tool packer-sdc mapstructure-to-hcl2 -type Config

import (
	"github.com/hashicorp/packer-plugin-sdk/common"
	"github.com/hashicorp/packer-plugin-sdk/template/interpolate"

	"github.com/eksnode/packer-plugin-eksnode/plugin/remote"
	"github.com/eksnode/packer-plugin-eksnode/plugin/validate"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

// Config are the fields of a `provisioner "eksnode"` block: the fields of the spec,
// and the fields for the Packer host.
type Config struct {
	common.PackerConfig `mapstructure:",squash"`
	remote.Config       `mapstructure:",squash"`
	provisioner.Spec    `mapstructure:",squash"`

	// Where downloads are made: `machine`, where the machine itself fetches
	// them, or `packer-host`, where the Packer host does, keeps them, and sends
	// them through the connection that Packer has to the machine, which then
	// needs no network but for its packages. A folder in `source_url` is the
	// Packer host's then. Defaults to `machine`.
	DownloadOn        string `mapstructure:"download_on"`
	provisioner.Local `mapstructure:",squash"`

	ctx interpolate.Context
}

// anyKubernetes replaces a version that is not known yet, so that the other fields
// can be checked. No other field depends on the version.
const anyKubernetes = "1.34.4"

// known returns the spec without the fields that are not known yet, and without
// the fields that depend on those.
func (c *Config) known() provisioner.Spec {
	s := validate.KnownFields(c.Spec)
	if validate.IsUnknown(c.KubernetesVersion) {
		s.KubernetesVersion = anyKubernetes
	}
	if validate.IsUnknown(c.LockFile) { // whether the lock has the images
		s.Containers = provisioner.Containers{}
	}
	if validate.IsUnknown(c.Source) || validate.IsUnknown(c.LockFile) { // whether the day has an effect
		s.EKSBuildDate = ""
	}
	return s
}
