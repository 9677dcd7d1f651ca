package provisioner

import (
	"context"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// agents are the values of the field agents, with the package, whose unit has the same
// name. Their identity is in the rules ssm-registration and agent-ids of the scrub.
var agents = map[string]string{
	"ssm": "amazon-ssm-agent", "cloudwatch": "amazon-cloudwatch-agent", "node-problem-detector": "node-problem-detector",
}

// Agents lists the values of the field agents.
func Agents() []string { return []string{"ssm", "cloudwatch", "node-problem-detector"} }

func (s Spec) agentOptions() []option {
	var list []option
	for _, id := range s.Agents {
		list = append(list, option{
			id: id, needs: distros.Agents, packages: []string{agents[id]}, units: []string{agents[id] + ".service"}, why: "the agent " + id,
		})
	}
	return list
}

// planOptionUnits plans to enable the units of options. A package that has no such unit is
// an error.
func (n *node) planOptionUnits(ctx context.Context, h *host.Host, o option) ([]plan.Action, error) {
	if len(o.units) == 0 {
		return nil, nil
	}
	have, err := n.installed(ctx, h)
	if err != nil {
		return nil, err
	}
	for i, pkg := range o.packages[:min(len(o.packages), len(o.units))] {
		unit := o.units[i]
		has, err := h.HasUnit(unit)
		if err != nil {
			return nil, err
		}
		if !has && have[pkg] != "" {
			return nil, surface.Errorf("{agents}: the package %s has no unit %s; choose another repository",
				pkg, unit)
		}
	}
	return planEnabled(h, o.units, o.why+" starts at boot")
}
