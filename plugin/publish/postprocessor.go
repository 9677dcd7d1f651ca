// Package publish is the Packer post-processor `eksnode-publish`: it puts the
// ids of the images that amazon-ebs made into an SSM parameter of each region.
package publish

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/hashicorp/packer-plugin-sdk/common"
	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"github.com/hashicorp/packer-plugin-sdk/template/interpolate"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/plugin/access"
	"github.com/eksnode/packer-plugin-eksnode/plugin/validate"
)

// PostProcessor implements packersdk.PostProcessor.
type PostProcessor struct{ config Config }

// ConfigSpec implements packersdk.HCL2Speccer.
func (p *PostProcessor) ConfigSpec() hcldec.ObjectSpec { return validate.HCL(&p.config) }

// Configure decodes and checks the fields. All problems are joined.
func (p *PostProcessor) Configure(raws ...any) error {
	p.config = Config{}
	if err := validate.DecodeRendered(&p.config, "eksnode-publish", &p.config.ctx, raws...); err != nil {
		return err
	}
	var errs []error
	switch name := p.config.Parameter; {
	case name == "":
		errs = append(errs, errors.New("parameter: the SSM parameter's name is missing"))
	case !validate.IsUnknown(name):
		if err := awsnames.Parameter(name); err != nil {
			errs = append(errs, fmt.Errorf("parameter: %w", err))
		}
	}
	if p.config.Region != "" {
		errs = append(errs, errors.New("region: the image's regions are taken; leave it out"))
	}
	return validate.All(append(errs, p.config.Config.Prepare())...)
}

// PostProcess publishes the artifact's images. It tries every region before it
// fails, and keeps the artifact.
func (p *PostProcessor) PostProcess(ctx context.Context, ui packersdk.Ui, artifact packersdk.Artifact) (packersdk.Artifact, bool, bool, error) {
	images, err := imagesOf(artifact.Id())
	if err != nil {
		return artifact, true, false, err
	}
	var errs []error
	for _, i := range images {
		in := p.config
		in.Region = i.region
		a, err := in.Open(ctx)
		if err == nil {
			err = a.Publish(ctx, p.config.Parameter, i.id)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("in %s: %w", i.region, err))
			continue
		}
		ui.Say(fmt.Sprintf("%s in %s is %s", p.config.Parameter, i.region, i.id))
	}
	return artifact, true, false, errors.Join(errs...)
}

type image struct{ region, id string }

// imagesOf reads the id that the builders of the amazon plugin give their
// artifacts: eu-west-1:ami-1,eu-north-1:ami-2.
func imagesOf(id string) ([]image, error) {
	var images []image
	for one := range strings.SplitSeq(id, ",") {
		region, ami, _ := strings.Cut(one, ":")
		if awsnames.Region().Check(region) != nil || awsnames.ImageID().Check(ami) != nil {
			return nil, fmt.Errorf("reading the artifact %q: it is no image of the amazon plugin", id)
		}
		images = append(images, image{region, ami})
	}
	return images, nil
}

// Config holds the fields of a `post-processor "eksnode-publish"` block.
type Config struct {
	common.PackerConfig `mapstructure:",squash"`
	access.Config       `mapstructure:",squash"`

	// SSM parameter for the AMI ID, such as `/eksnode/debian/1.34/amd64`. The
	// post-processor writes the parameter in every region of the AMI.
	Parameter string `mapstructure:"parameter" required:"true"`

	ctx interpolate.Context
}
