package publish

import (
	"github.com/hashicorp/packer-plugin-sdk/common"
	"github.com/hashicorp/packer-plugin-sdk/template/interpolate"

	"github.com/eksnode/packer-plugin-eksnode/plugin/access"
)

// Config holds the fields of a `post-processor "eksnode-publish"` block.
type Config struct {
	common.PackerConfig `mapstructure:",squash"`
	access.Config       `mapstructure:",squash"`

	// SSM parameter for the AMI ID, such as `/eksnode/debian/1.34/amd64`. The
	// post-processor writes the parameter in every region of the AMI.
	Parameter string `mapstructure:"parameter" required:"true"`

	ctx interpolate.Context
}
