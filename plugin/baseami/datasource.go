// Package baseami is the Packer data source `eksnode-base-ami`: the newest base
// image of a distribution, whose owner has been verified.
package baseami

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/packer-plugin-sdk/common"
	"github.com/zclconf/go-cty/cty"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/plugin/access"
	"github.com/eksnode/packer-plugin-eksnode/plugin/validate"
)

// Datasource implements packersdk.Datasource.
type Datasource struct {
	validate.Source[Config, Output]
}

// noParameter is the word for looking by name.
const noParameter = "none"

// Configure decodes and checks the fields. All problems are joined.
func (d *Datasource) Configure(raws ...any) error {
	if err := d.Decode(nil, raws...); err != nil {
		return err
	}
	c := &d.Config
	c.Architecture = cmp.Or(c.Architecture, "amd64")
	var errs []error
	if _, known := architectures()[c.Architecture]; !known && !validate.IsUnknown(c.Architecture) {
		errs = append(errs, fmt.Errorf("architecture: %q is not known; known are amd64, arm64", c.Architecture))
	}
	if c.Name != "" && c.Parameter != "" && c.Parameter != noParameter {
		errs = append(errs, errors.New("name and parameter: name one of them"))
	}
	if c.Kernel != "" && (c.Name != "" || c.Parameter != "" && c.Parameter != noParameter) {
		errs = append(errs, errors.New("kernel: name and parameter choose the image already; leave kernel out"))
	}
	for _, owner := range validate.KnownOf(c.Owners) {
		if !slices.Contains([]string{"self", "amazon", "aws-marketplace"}, owner) {
			if err := awsnames.AccountID.Check(owner); err != nil {
				errs = append(errs, fmt.Errorf("owners: %w, self, amazon and aws-marketplace", err))
			}
		}
	}
	if p := c.Parameter; p != "" && p != noParameter && !validate.IsUnknown(p) {
		if err := awsnames.ReadParameter(p); err != nil {
			errs = append(errs, fmt.Errorf("parameter: %w", err))
		}
	}
	known := !validate.IsUnknown(c.Distro) && !validate.IsUnknown(c.Version) && !validate.IsUnknown(c.Architecture)
	if known && len(errs) == 0 {
		_, _, err := c.search("")
		errs = append(errs, err)
	}
	return validate.All(append(errs, c.Config.Prepare())...)
}

// architectures are Go's spelling and AWS's.
func architectures() map[string]string { return map[string]string{"amd64": "x86_64", "arm64": "arm64"} }

// search returns the search for a region, and the default user of its instances.
func (c *Config) search(region string) (awsapi.Search, string, error) {
	distro, err := distros.ByID(c.Distro)
	if err != nil {
		return awsapi.Search{}, "", err
	}
	version := c.Version
	if version == "" && len(distro.Versions) > 0 {
		version = distro.Versions[len(distro.Versions)-1]
	}
	base, err := distro.BaseImage(version, c.Architecture, validate.Known(c.Kernel))
	if err != nil {
		return awsapi.Search{}, "", err
	}
	owner := base.Owner
	if strings.HasPrefix(region, "cn-") && base.ChinaOwner != "" {
		owner = base.ChinaOwner
	}
	s := awsapi.Search{
		Parameter: base.Parameter, Owners: []string{owner}, Name: base.Name,
		Architecture: architectures()[c.Architecture],
	}
	if len(c.Owners) > 0 {
		s.Owners = c.Owners
	}
	if c.Name != "" {
		s.Name, s.Parameter = c.Name, ""
	}
	switch c.Parameter {
	case "":
	case noParameter:
		s.Parameter = ""
	default:
		s.Parameter = c.Parameter
	}
	return s, distro.DefaultUser, nil
}

// Execute asks AWS. Packer's data sources have no context: they end with Packer.
func (d *Datasource) Execute() (cty.Value, error) {
	ctx := context.Background()
	none := cty.NullVal(cty.EmptyObject)
	a, err := d.Config.Open(ctx)
	if err != nil {
		return none, err
	}
	search, user, err := d.Config.search(a.Region)
	if err != nil {
		return none, err
	}
	image, err := a.Newest(ctx, search)
	if err != nil {
		return none, err
	}
	return d.Value(Output{
		ID: image.ID, Name: image.Name, Owner: image.Owner, CreationDate: image.Created.Format(time.RFC3339),
		Architecture: d.Config.Architecture, RootDevice: image.RootDevice, SSHUsername: user,
	}), nil
}

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
	// Line of the kernel, such as `6.18`, where the publisher has images by kernel: `6.1`,
	// `6.12` and `6.18` of Amazon Linux 2023. Defaults to the publisher's default.
	Kernel string `mapstructure:"kernel"`
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
