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

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/hashicorp/packer-plugin-sdk/hcl2helper"
	"github.com/zclconf/go-cty/cty"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/plugin/validate"
)

// Datasource implements packersdk.Datasource.
type Datasource struct{ config Config }

// noParameter is the word for looking by name.
const noParameter = "none"

// ConfigSpec implements packersdk.HCL2Speccer.
func (d *Datasource) ConfigSpec() hcldec.ObjectSpec { return validate.HCL(&d.config) }

// OutputSpec is what the data source tells, for Packer's validate.
func (d *Datasource) OutputSpec() hcldec.ObjectSpec { return validate.HCL(&Output{}) }

// Configure decodes and checks the fields. All problems are joined.
func (d *Datasource) Configure(raws ...any) error {
	d.config = Config{}
	if err := validate.Decode(&d.config, nil, raws...); err != nil {
		return err
	}
	c := &d.config
	c.Architecture = cmp.Or(c.Architecture, "amd64")
	var errs []error
	if _, known := architectures()[c.Architecture]; !known && !validate.IsUnknown(c.Architecture) {
		errs = append(errs, fmt.Errorf("architecture: %q is not known; known are amd64, arm64", c.Architecture))
	}
	if c.Name != "" && c.Parameter != "" && c.Parameter != noParameter {
		errs = append(errs, errors.New("name and parameter: name one of them"))
	}
	for _, owner := range validate.KnownOf(c.Owners) {
		if !slices.Contains([]string{"self", "amazon", "aws-marketplace"}, owner) {
			if err := awsnames.AccountID().Check(owner); err != nil {
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
	base, err := distro.BaseImage(version, c.Architecture)
	if err != nil {
		return awsapi.Search{}, "", err
	}
	owner := base.Owner
	if strings.HasPrefix(region, "cn-") && base.ChinaOwner != "" {
		owner = base.ChinaOwner
	}
	s := awsapi.Search{
		Parameter: base.Parameter, Owners: []string{owner}, Name: base.Name, Architecture: architectures()[c.Architecture],
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
	a, err := d.config.Open(ctx)
	if err != nil {
		return none, err
	}
	search, user, err := d.config.search(a.Region)
	if err != nil {
		return none, err
	}
	image, err := a.Newest(ctx, search)
	if err != nil {
		return none, err
	}
	return hcl2helper.HCL2ValueFromConfig(Output{
		ID: image.ID, Name: image.Name, Owner: image.Owner, CreationDate: image.Created.Format(time.RFC3339),
		Architecture: d.config.Architecture, RootDevice: image.RootDevice, SSHUsername: user,
	}, d.OutputSpec()), nil
}
