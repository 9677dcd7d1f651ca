package contents

import "github.com/hashicorp/packer-plugin-sdk/common"

// Config holds the fields of a `data "eksnode-contents"` block.
type Config struct {
	common.PackerConfig `mapstructure:",squash"`

	// Distribution ID, such as `debian`.
	Distro string `mapstructure:"distro" required:"true"`
	// Complete kubelet version, as in the provisioner.
	KubernetesVersion string `mapstructure:"kubernetes_version" required:"true"`
	// Architecture, `amd64` or `arm64`. Defaults to `amd64`.
	Architecture string `mapstructure:"architecture"`
	// Publisher of assets, as in the provisioner.
	Source string `mapstructure:"source"`
	// Date of the EKS build, as in the provisioner.
	EKSBuildDate string `mapstructure:"eks_build_date"`
	// Path of the lock file, as in the provisioner.
	LockFile string `mapstructure:"lock_file"`
	// Asset versions by asset name, as in the provisioner.
	Versions map[string]string `mapstructure:"versions"`
	// Pause image to preload, as in the provisioner.
	PauseImage string `mapstructure:"pause_image"`
}

// Output holds the results of the data source.
type Output struct {
	// Asset versions by asset name, such as `kubelet`.
	Versions map[string]string `mapstructure:"versions"`
	// AMI tags with the versions.
	Tags map[string]string `mapstructure:"tags"`
	// AMI description with the versions.
	Description string `mapstructure:"description"`
}
