package provisioner

import (
	"context"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/bootunits"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// started are the units that first boot starts. They do not start at boot by
// themselves, because both need data about the cluster: the kubelet all of it,
// containerd the pause image. A kubelet that starts before user data has run joins
// with leftover state of another cluster, and starting it again afterwards changes
// nothing. `eksnode init` and bootstrap.sh start both units.
var started = []string{"containerd.service", "kubelet.service"}

// unitIntentions are the units that provisioning enables or disables.
func (n *node) unitIntentions() []manifest.Unit {
	all := show.Each(started, func(name string) manifest.Unit { return manifest.Unit{Name: name} })
	if n.spec.joins() {
		for _, name := range bootunits.Units() {
			all = append(all, manifest.Unit{Name: name, Enabled: true})
		}
	}
	slices.SortFunc(all, func(a, b manifest.Unit) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// units writes the units and disables those that packages enabled.
func (n *node) units(ctx context.Context, h *host.Host) ([]plan.Action, error) {
	var g gathered
	g.add(plan.Files(h, n.stepFiles("units")))
	for _, u := range started {
		links, err := h.Enablements(u)
		if err != nil {
			return nil, err
		}
		if len(links) > 0 {
			g.actions = append(g.actions, disable(h, u, links))
		}
	}
	g.add(needsReload(ctx, h, len(g.actions) > 0, started))
	return g.all()
}

// disable removes the links that start a unit at boot, as systemctl does.
func disable(h *host.Host, unit string, links []string) plan.Action {
	return act(plan.Disable, unit, "only first boot may start this unit", func(context.Context) error {
		for _, link := range links {
			if err := h.Files.Remove(link); err != nil {
				return err
			}
		}
		return nil
	})
}

// needsReload plans a reload of systemd when units change, or when a killed run
// changed them without a reload.
func needsReload(ctx context.Context, h *host.Host, changing bool, names []string) ([]plan.Action, error) {
	if !h.HasSystemd() {
		return nil, nil
	}
	if !changing {
		stale, err := h.UnitProperty(ctx, "NeedDaemonReload", names...)
		if err != nil || !slices.Contains(stale, "yes") {
			return nil, err
		}
	}
	return []plan.Action{plan.Command(h, "systemd must read the changed units", "systemctl", "daemon-reload")}, nil
}
