package ami

import (
	"github.com/hashicorp/packer-plugin-sdk/common"
	"github.com/hashicorp/packer-plugin-sdk/template/interpolate"

	"github.com/eksnode/packer-plugin-eksnode/internal/amiimport"
	"github.com/eksnode/packer-plugin-eksnode/plugin/access"
)

// Config holds the fields of a `post-processor "eksnode-ami"` block.
type Config struct {
	common.PackerConfig `mapstructure:",squash"`
	access.Config       `mapstructure:",squash"`
	amiimport.Spec      `mapstructure:",squash"`

	// Path of the disk image: raw, qcow2 or fixed VHD. Defaults to the only disk image
	// among the files of the artifact.
	Disk string `mapstructure:"disk"`

	ctx interpolate.Context
}
