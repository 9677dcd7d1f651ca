package baseami

//go:generate go tool packer-sdc mapstructure-to-hcl2 -type Config,Output

import (
	"github.com/hashicorp/packer-plugin-sdk/common"

	"github.com/eksnode/packer-plugin-eksnode/plugin/access"
)

// Config is the fields of a `data "eksnode-base-ami"` block.
type Config struct {
	common.PackerConfig `mapstructure:",squash"`
	access.Config       `mapstructure:",squash"`

	// The distribution, by its ID in the list of distributions.
	Distro string `mapstructure:"distro" required:"true"`
	// The distribution's version, such as `12`. Defaults to the newest that is
	// known; a rolling distribution has none.
	Version string `mapstructure:"version"`
	// The processor: `amd64` or `arm64`. Defaults to `amd64`.
	Architecture string `mapstructure:"architecture"`
	// Look for an image of this name instead, with `*` and `?`; `owners` says
	// whose.
	Name string `mapstructure:"name"`
	// The accounts, one of which must own the image. Defaults to the
	// distribution's publisher.
	Owners []string `mapstructure:"owners"`
	// Take the image that this SSM parameter names. Its owner is verified all
	// the same. Defaults to the publisher's own parameter, where there is one;
	// `none` looks for the newest by name instead.
	Parameter string `mapstructure:"parameter"`
}

// Output is what the data source tells.
type Output struct {
	// The image's id.
	ID string `mapstructure:"id"`
	// Its name, and the account that owns it.
	Name  string `mapstructure:"name"`
	Owner string `mapstructure:"owner"`
	// When it was made, such as `2026-03-01T00:00:00Z`.
	CreationDate string `mapstructure:"creation_date"`
	// `amd64` or `arm64`.
	Architecture string `mapstructure:"architecture"`
	// The name of its root device.
	RootDevice string `mapstructure:"root_device"`
	// The user whom its instances let in over SSH.
	SSHUsername string `mapstructure:"ssh_username"`
}
