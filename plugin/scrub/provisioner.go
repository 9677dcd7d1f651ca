// Package scrub is the Packer provisioner `eksnode-scrub`: it removes from the
// builder machine what a node image must not carry. It has to be the last
// provisioner of a build: afterwards nobody can log in.
package scrub

import (
	"context"

	"github.com/hashicorp/hcl/v2/hcldec"
	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"github.com/hashicorp/packer-plugin-sdk/template/config"

	"github.com/eksnode/packer-plugin-eksnode/internal/agent"
	"github.com/eksnode/packer-plugin-eksnode/plugin/remote"
	"github.com/eksnode/packer-plugin-eksnode/plugin/validate"
)

// Provisioner implements packersdk.Provisioner.
type Provisioner struct {
	config Config
	kept   remote.Kept // Prepare does not reset it
}

// ConfigSpec implements packersdk.HCL2Speccer.
func (p *Provisioner) ConfigSpec() hcldec.ObjectSpec { return validate.HCL(&p.config) }

// Prepare decodes and checks the fields, and joins all problems. Packer calls
// Prepare when it loads the template, with "<unknown>" for values that are not
// known yet, and again before Provision and each retry: nothing of an earlier call
// may remain.
func (p *Provisioner) Prepare(raws ...any) error {
	p.config = Config{}
	// Templates in double braces are rendered in every field. No field needs
	// double braces of its own.
	err := validate.Decode(&p.config, &config.DecodeOpts{
		PluginType:         "eksnode-scrub",
		Interpolate:        true,
		InterpolateContext: &p.config.ctx,
	}, raws...)
	if err != nil {
		return err
	}
	return validate.All(p.config.validate(), p.config.Config.Prepare())
}

// Provision sends the agent to the machine, which scrubs the machine.
func (p *Provisioner) Provision(ctx context.Context, ui packersdk.Ui, comm packersdk.Communicator, _ map[string]any) error {
	return remote.New(p.config.Config, p.config.PackerConfig, &p.kept, ui, comm).Run(ctx, agent.Request{Command: agent.Scrub, Scrub: &p.config.Spec})
}
