package contents

//go:generate go tool packer-sdc mapstructure-to-hcl2 -type Config,Output

import "github.com/hashicorp/packer-plugin-sdk/common"

// Config is the fields of a `data "eksnode-contents"` block.
type Config struct {
	common.PackerConfig `mapstructure:",squash"`

	// The distribution, by its ID in the list of distributions.
	Distro string `mapstructure:"distro" required:"true"`
	// The kubelet's version, as in the provisioner.
	KubernetesVersion string `mapstructure:"kubernetes_version" required:"true"`
	// The processor: `amd64` or `arm64`. Defaults to `amd64`.
	Architecture string `mapstructure:"architecture"`
	// The publisher, as in the provisioner.
	Source string `mapstructure:"source"`
	// The day of EKS' build, as in the provisioner.
	EKSBuildDate string `mapstructure:"eks_build_date"`
	// Path of the lock file, as in the provisioner.
	LockFile string `mapstructure:"lock_file"`
	// Other versions of assets, as in the provisioner.
	Versions map[string]string `mapstructure:"versions"`
	// The pause image, as in the provisioner.
	PauseImage string `mapstructure:"pause_image"`
}

// Output is what the data source tells.
type Output struct {
	// The versions of the assets by their names, such as `kubelet`.
	Versions map[string]string `mapstructure:"versions"`
	// The same as tags for an AMI.
	Tags map[string]string `mapstructure:"tags"`
	// The same as a sentence.
	Description string `mapstructure:"description"`
}
