// Package contents is the Packer data source `eksnode-contents`: what an image
// will be made of, for its tags and its description. Builders want both before
// a provisioner has run, and no provisioner can hand them anything.
package contents

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/packer-plugin-sdk/common"
	"github.com/zclconf/go-cty/cty"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plugin/validate"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

// Datasource implements packersdk.Datasource.
type Datasource struct {
	validate.Source[Config, Output]
}

// Configure decodes and checks the fields. All problems are joined.
func (d *Datasource) Configure(raws ...any) error {
	if err := d.Decode(nil, raws...); err != nil {
		return err
	}
	d.Config.Architecture = cmp.Or(d.Config.Architecture, "amd64")
	if d.Config.isUnknown() {
		return nil
	}
	_, err := d.Config.versions()
	return validate.All(err)
}

// isUnknown reports whether a field is not known yet.
func (c *Config) isUnknown() bool {
	texts := append(slices.Collect(maps.Values(c.Versions)),
		c.Distro, c.KubernetesVersion, c.Architecture, c.Source, c.EKSBuildDate, c.LockFile, c.PauseImage)
	return slices.ContainsFunc(texts, validate.IsUnknown)
}

// versions asks the provisioner's own table.
func (c *Config) versions() (map[string]string, error) {
	distro, err := distros.ByID(c.Distro)
	if err != nil {
		return nil, err
	}
	spec := provisioner.Spec{
		KubernetesVersion: c.KubernetesVersion, Versions: c.Versions,
		Sources:    provisioner.Sources{Source: c.Source, EKSBuildDate: c.EKSBuildDate},
		Containers: provisioner.Containers{PauseImage: c.PauseImage},
	}
	if spec.Lock, err = validate.Lock(&c.LockFile); err != nil {
		return nil, err
	}
	return provisioner.Contents(spec, distro, c.Architecture)
}

// Execute tells.
func (d *Datasource) Execute() (cty.Value, error) {
	versions, err := d.Config.versions()
	if err != nil {
		return cty.NullVal(cty.EmptyObject), err
	}
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(versions)) {
		if id != "kubelet" {
			parts = append(parts, id+" "+versions[id])
		}
	}
	return d.Value(Output{
		Versions: versions, Tags: manifest.Tags(d.Config.KubernetesVersion, d.Config.Distro, d.Config.Architecture,
			versions),
		Description: fmt.Sprintf("EKS node, Kubernetes %s, %s on %s: %s",
			d.Config.KubernetesVersion, d.Config.Distro, d.Config.Architecture, strings.Join(parts, ", ")),
	}), nil
}

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
