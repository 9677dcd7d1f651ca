package scrub

import (
	"cmp"
	"context"
	"fmt"

	"github.com/hashicorp/hcl/v2/hcldec"
	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"

	"github.com/eksnode/packer-plugin-eksnode/internal/session/agent"
	"github.com/eksnode/packer-plugin-eksnode/plugin/remote"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

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
