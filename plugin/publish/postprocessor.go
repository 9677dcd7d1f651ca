// Package publish is the Packer post-processor `eksnode-publish`: it puts the
// ids of the images that amazon-ebs made into an SSM parameter of each region.
package publish

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/packer-plugin-sdk/common"
	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"

	"github.com/eksnode/packer-plugin-eksnode/internal/ami/amiimport"
	"github.com/eksnode/packer-plugin-eksnode/internal/ami/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plugin/access"
	"github.com/eksnode/packer-plugin-eksnode/plugin/remote"
	"github.com/eksnode/packer-plugin-eksnode/plugin/validate"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

// PostProcessor implements packersdk.PostProcessor.
type PostProcessor struct{ validate.Block[Config] }

// Configure decodes and checks the fields. All problems are joined.
func (p *PostProcessor) Configure(raws ...any) error {
	if err := p.DecodeRendered("eksnode-publish", raws...); err != nil {
		return err
	}
	var f surface.Faults
	name := p.Config.Parameter
	f.When(name == "", "parameter: the SSM parameter's name is missing")
	if name != "" && !validate.IsUnknown(name) {
		f.Check("parameter", awsnames.Parameter(name))
	}
	f.When(p.Config.Region != "", "region: the image's regions are taken; leave it out")
	known := validate.KnownFields(p.Config.Signing)
	if validate.IsUnknown(p.Config.Statement) || validate.IsUnknown(p.Config.StatementKey) {
		known = amiimport.Signing{}
	}
	f.Add(known.Validate())
	f.Add(p.Config.Config.Prepare())
	f.When(p.Config.Statement == "" && (len(p.Config.SkipRules) > 0 || p.Config.CacheFolder != ""),
		"skip_rules and cache_folder have no effect without statement")
	f.Add(access.Home(&p.Config.Signing))
	f.Add(validate.Home("cache_folder", &p.Config.CacheFolder))
	return validate.All(f.Err())
}

// PostProcess publishes the artifact's images, after their statement. It tries every
// region before it fails, and keeps the artifact.
func (p *PostProcessor) PostProcess(ctx context.Context, ui packersdk.Ui,
	artifact packersdk.Artifact) (packersdk.Artifact, bool, bool, error) {
	images, err := imagesOf(artifact.Id())
	if err != nil {
		return artifact, true, false, err
	}
	if p.Config.Statement != "" {
		if err := p.attest(ctx, ui, images); err != nil {
			return artifact, true, false, err
		}
	}
	var errs []error
	for _, i := range images {
		a, err := i.Open(ctx, p.Config.Options)
		if err == nil {
			err = a.Publish(ctx, p.Config.Parameter, i.ID)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("in %s: %w", i.Region, err))
			continue
		}
		ui.Say(fmt.Sprintf("%s in %s is %s", p.Config.Parameter, i.Region, i.ID))
	}
	return artifact, true, false, errors.Join(errs...)
}

// attest signs the statement about the images.
func (p *PostProcessor) attest(ctx context.Context, ui packersdk.Ui, images []snapshot.Named) error {
	folder, err := provisioner.Local{CacheFolder: p.Config.CacheFolder}.Cache()
	if err != nil {
		return err
	}
	a, err := images[0].Open(ctx, p.Config.Options)
	if err != nil {
		return err
	}
	ui.Say("Reading the disk of the AMI for its audit and statement")
	report, err := amiimport.Attestation{
		Signing: p.Config.Signing, SkipRules: p.Config.SkipRules, Cache: access.NewMeter(ui).Cache(folder),
	}.Run(ctx, a, images)
	if report != nil {
		remote.PrintAudit(ui, report)
	}
	return err
}

// imagesOf reads the id that the builders of the amazon plugin give their
// artifacts: eu-west-1:ami-1,eu-north-1:ami-2.
func imagesOf(id string) ([]snapshot.Named, error) {
	var images []snapshot.Named
	for one := range strings.SplitSeq(id, ",") {
		region, ami, _ := strings.Cut(one, ":")
		if awsnames.Region.Check(region) != nil || awsnames.ImageID.Check(ami) != nil {
			return nil, fmt.Errorf("reading the artifact %q: it is no image of the amazon plugin", id)
		}
		images = append(images, snapshot.Named{Region: region, ID: ami})
	}
	return images, nil
}

// Config holds the fields of a `post-processor "eksnode-publish"` block.
type Config struct {
	common.PackerConfig `mapstructure:",squash"`
	access.Config       `mapstructure:",squash"`

	// SSM parameter for the AMI ID, such as `/eksnode/debian/1.36/amd64`. The
	// post-processor writes the parameter in every region of the AMI.
	Parameter string `mapstructure:"parameter" required:"true"`

	amiimport.Signing `mapstructure:",squash"`
	// Rules that the audit for the statement skips. The post-processor reads the disk of
	// the AMI and audits it, which needs root and Linux. With findings, it publishes nothing.
	SkipRules []string `mapstructure:"skip_rules"`
	// Cache folder for the disk. Defaults to `eksnode/assets` in the user's cache folder.
	CacheFolder string `mapstructure:"cache_folder"`
}
