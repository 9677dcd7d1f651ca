// Package eksnode is the Packer provisioner `eksnode`: it turns the builder machine
// into an EKS node.
package eksnode

import (
	"context"
	"errors"

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
		PluginType:         "eksnode",
		Interpolate:        true,
		InterpolateContext: &p.config.ctx,
	}, raws...)
	if err != nil {
		return err
	}
	lock, err := validate.Lock(&p.config.LockFile)
	p.config.Lock = lock
	check := p.config.known().Validate
	if validate.IsUnknown(p.config.KubernetesVersion) {
		check = p.config.known().ValidateWithoutVersion
	}
	wrong := errors.Join(err, check())
	if wrong == nil { // both report a wrong field
		wrong = p.config.checkChoice()
	}
	return validate.All(wrong, p.config.checkDownloads(), p.config.Config.Prepare())
}

// Provision sends the agent to the machine, which becomes a node.
func (p *Provisioner) Provision(ctx context.Context, ui packersdk.Ui, comm packersdk.Communicator, _ map[string]any) error {
	spec, err := p.config.sent()
	if err != nil {
		return err
	}
	session := remote.New(p.config.Config, p.config.PackerConfig, &p.kept, ui, comm)
	session.Supply = p.config.supply
	return session.Run(ctx, agent.Request{Command: agent.Provision, Provision: &spec, SupplyAssets: p.config.onPackerHost()})
}
