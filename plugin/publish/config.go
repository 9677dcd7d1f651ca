package publish

//go:generate go tool packer-sdc mapstructure-to-hcl2 -type Config

import (
	"github.com/hashicorp/packer-plugin-sdk/common"
	"github.com/hashicorp/packer-plugin-sdk/template/interpolate"

	"github.com/eksnode/packer-plugin-eksnode/plugin/access"
)

// Config is the fields of a `post-processor "eksnode-publish"` block.
type Config struct {
	common.PackerConfig `mapstructure:",squash"`
	access.Config       `mapstructure:",squash"`

	// The SSM parameter that the image's id is put into, in every region that
	// the image is in, such as `/eksnode/debian/1.34/amd64`.
	Parameter string `mapstructure:"parameter" required:"true"`

	ctx interpolate.Context
}
