// Package scrub is the Packer provisioner `eksnode-scrub`: it removes from the
// builder machine what a node image must not carry. It has to be the last
// provisioner of a build: afterwards nobody can log in. The provisioner
// `eksnode-audit` only looks, in builds whose clean-up is another program.
package scrub

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/hashicorp/packer-plugin-sdk/common"
	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/agent"
	"github.com/eksnode/packer-plugin-eksnode/plugin/remote"
	"github.com/eksnode/packer-plugin-eksnode/plugin/validate"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// Provisioner implements packersdk.Provisioner.
type Provisioner struct {
	validate.Block[Config]
	kept remote.Kept // Prepare does not reset it
}

// Prepare decodes and checks the fields, and joins all problems.
func (p *Provisioner) Prepare(raws ...any) error {
	return p.prepare("eksnode-scrub", scrub.ToScrub, raws)
}

func (p *Provisioner) prepare(name string, mode scrub.Mode, raws []any) error {
	if err := p.DecodeRendered(name, raws...); err != nil {
		return err
	}
	return validate.All(p.Config.validate(mode), p.Config.Config.Prepare())
}

// Provision sends the agent to the machine, which scrubs the machine.
func (p *Provisioner) Provision(ctx context.Context, ui packersdk.Ui, comm packersdk.Communicator,
	_ map[string]any) error {
	return remote.New(p.Config.Config, p.Config.PackerConfig, &p.kept, ui, comm).
		Run(ctx, agent.Request{Command: agent.Scrub, Scrub: &p.Config.Spec})
}

// Config holds the fields of a `provisioner "eksnode-scrub"` block.
type Config struct {
	common.PackerConfig `mapstructure:",squash"`
	remote.Config       `mapstructure:",squash"`
	scrub.Spec          `mapstructure:",squash"`
	scrub.Local         `mapstructure:",squash"`
}

// validate checks the fields that are known before the machine is. Without
// distro, the rules of all distributions are allowed.
func (c *Config) validate(mode scrub.Mode) error {
	err := validate.Home("rules_file", &c.RulesFile)
	if err == nil {
		c.Own, err = validate.KnownFields(c.Local).Rules()
	}
	if err != nil {
		return err
	}
	known := validate.KnownFields(c.Spec)
	if validate.IsUnknown(c.RulesFile) { // its rules look like typing errors
		known.Only, known.Skip = nil, nil
	}
	rules := distros.ScrubRules()
	if known.Distro != "" {
		distro, unknown := distros.ByID(known.Distro)
		if unknown == nil {
			rules = distro.ScrubRules()
		}
		err = unknown
	}
	return errors.Join(err, known.Validate(mode, rules))
}

// Audit is the Packer provisioner `eksnode-audit`: it audits a machine that others
// made a node, changes nothing on it, and fails the build on a finding.
type Audit struct{ Provisioner }

// changing are the fields of eksnode-scrub that an audit does not have.
var changing = []string{"audit", "dry_run", "hash", "wipe_free_space"}

// ConfigSpec implements packersdk.HCL2Speccer.
func (a *Audit) ConfigSpec() hcldec.ObjectSpec {
	spec := a.Provisioner.ConfigSpec()
	for _, field := range changing {
		delete(spec, field)
	}
	return spec
}

// Prepare decodes and checks the fields, as for eksnode-scrub.
func (a *Audit) Prepare(raws ...any) error {
	for _, raw := range raws {
		fields, _ := raw.(map[string]any)
		for _, field := range changing {
			if _, set := fields[field]; set { // in JSON; HCL refuses the field itself
				return fmt.Errorf("%s is a field of eksnode-scrub, and has no effect on eksnode-audit: remove it",
					field)
			}
		}
	}
	err := a.prepare("eksnode-audit", scrub.ToAudit, raws)
	a.Config.Node = cmp.Or(a.Config.Node, scrub.NodeAuto)
	return err
}

// Provision sends the agent to the machine, which audits the machine.
func (a *Audit) Provision(
	ctx context.Context, ui packersdk.Ui, comm packersdk.Communicator, _ map[string]any,
) error {
	session := remote.New(a.Config.Config, a.Config.PackerConfig, &a.kept, ui, comm)
	return session.Run(ctx, agent.Request{Command: agent.Audit, Scrub: &a.Config.Spec})
}
