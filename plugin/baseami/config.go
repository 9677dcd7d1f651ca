package baseami

import (
	"github.com/hashicorp/packer-plugin-sdk/common"

	"github.com/eksnode/packer-plugin-eksnode/plugin/access"
)

// Config holds the fields of a `data "eksnode-base-ami"` block.
type Config struct {
	common.PackerConfig `mapstructure:",squash"`
	access.Config       `mapstructure:",squash"`

	// Distribution ID, such as `debian`.
	Distro string `mapstructure:"distro" required:"true"`
	// Version of the distribution, such as `12`. Defaults to the newest supported
	// version; a rolling distribution has no version.
	Version string `mapstructure:"version"`
	// Architecture, `amd64` or `arm64`. Defaults to `amd64`.
	Architecture string `mapstructure:"architecture"`
	// AMI name to search for, with the wildcards `*` and `?`. Defaults
	// to the name pattern of the distribution.
	Name string `mapstructure:"name"`
	// Account IDs; one of these accounts must own the AMI. Defaults to the account
	// of the distribution's publisher.
	Owners []string `mapstructure:"owners"`
	// SSM parameter with the AMI ID. The owner of the AMI is verified too. With
	// `none`, the newest AMI by name is used. Defaults to the parameter of the
	// distribution's publisher, if there is one.
	Parameter string `mapstructure:"parameter"`
}

// Output holds the results of the data source.
type Output struct {
	// AMI ID.
	ID string `mapstructure:"id"`
	// Name of the AMI, and the ID of the account that owns the AMI.
	Name  string `mapstructure:"name"`
	Owner string `mapstructure:"owner"`
	// Creation date, such as `2026-03-01T00:00:00Z`.
	CreationDate string `mapstructure:"creation_date"`
	// Architecture, `amd64` or `arm64`.
	Architecture string `mapstructure:"architecture"`
	// Name of the root device.
	RootDevice string `mapstructure:"root_device"`
	// User for SSH logins.
	SSHUsername string `mapstructure:"ssh_username"`
}
