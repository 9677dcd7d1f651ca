// Package leftover removes leftover state at first boot: what a machine has from
// when it was another node, because its image was captured from a node.
package leftover

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/render"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/service"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

const (
	kubeletFolder = "/var/lib/kubelet"
	systemUnits   = "/etc/systemd/system"
	kubeletUnit   = "kubelet.service"
	// amazonFolder is where Amazon Linux 2's script copies its units from.
	amazonFolder = "/etc/eks/containerd"
)

// State removes what the kubelet of another node wrote, and what Amazon Linux
// 2's own script wrote for that kubelet. With it the kubelet starts as another
// node, joins and serves no logs, or does not start. What may be a user's wish
// stays, as a finding.
type State struct {
	// Node is what this machine becomes, with these Files.
	Node  *node.Node
	Files []render.File
}

// ID implements plan.Item.
func (State) ID() string { return "leftover-state" }

// Phase implements plan.Item.
func (State) Phase() string { return "config" }

// row is a row of the table: files of one kind, and when they go. With several
// conditions any is enough.
type row struct {
	paths []string
	// of is the evidence of another node for which the files go.
	of []evidence
	// unless keeps a file in spite of the evidence, for what it holds.
	unless func(h *host.Host, name string) (bool, error)
	// holds says why a file goes for what it holds, whoever wrote it.
	holds func(h *host.Host, name string) (why string, err error)
	// unit says that the file is systemd's: links that start it go too.
	unit bool
}

// table lists all leftover state. docs/design/why-scrub.md shows what each does to a node.
func (s State) table() []row {
	anotherNode := []evidence{otherCluster, otherInstance, nobody}
	dropIns := path.Join(systemUnits, kubeletUnit+".d")
	return []row{
		{paths: below("pki"), of: []evidence{otherCluster, otherInstance, otherCertificate}},
		{paths: below("cpu_manager_state", "memory_manager_state"), of: anotherNode, holds: s.otherPolicy},
		{
			paths: below("dra_manager_state", "allocated_pods_state", "actuated_pods_state", "pod_status_manager_state",
				"graceful_node_shutdown_state", "device-plugins/kubelet_internal_checkpoint"),
			of: anotherNode, holds: damaged,
		},
		{
			paths: []string{path.Join(dropIns, "10-kubelet-args.conf"), path.Join(dropIns, "30-kubelet-extra-args.conf")},
			of:    anotherNode, unless: notAmazonsDropIn, unit: true,
		},
		{paths: []string{path.Join(systemUnits, kubeletUnit)}, holds: amazonsKubelet, unit: true},
		{paths: []string{path.Join(systemUnits, "sandbox-image.service")}, holds: amazonsSandboxImage, unit: true},
		{paths: []string{render.Kubeconfig}, holds: s.strayKubeconfig},
	}
}

// Plan implements plan.Item. Done means that nothing the kubelet finds is of
// another cluster or node, but what only a person can tell.
func (s State) Plan(ctx context.Context, h *host.Host) (plan.Answer, error) {
	shown, err := s.evidence(h)
	if err != nil {
		return plan.Answer{}, fmt.Errorf("looking for leftover state: %w", err)
	}
	var actions []plan.Action
	units := false
	for _, row := range s.table() {
		for _, name := range row.paths {
			more, err := row.plan(h, name, shown)
			if err != nil {
				return plan.Answer{}, fmt.Errorf("looking for leftover state: %w", err)
			}
			if row.unit && len(more) > 0 {
				units = true
				if more, err = end(ctx, h, path.Base(name), more); err != nil {
					return plan.Answer{}, err
				}
			}
			actions = append(actions, more...)
		}
	}
	if units && h.HasSystemd() {
		// Also for a kubelet that is about to start by itself.
		actions = append(actions, service.Systemctl(h, "systemd forgets the units that went", "daemon-reload"))
	}
	if actions, err = s.stopFirst(ctx, h, actions); err != nil {
		return plan.Answer{}, err
	}
	found, err := doubts(h, actions)
	return plan.Answer{Actions: actions, Findings: found}, err
}

// plan plans the removal of one of the row's files.
func (r row) plan(h *host.Host, name string, shown map[evidence]string) ([]plan.Action, error) {
	if there, err := plan.IsThere(h, name); err != nil || !there {
		return nil, err
	}
	why := ""
	for _, t := range r.of {
		if why = shown[t]; why != "" {
			break
		}
	}
	if why != "" && r.unless != nil {
		if spared, err := r.unless(h, name); err != nil || spared {
			return nil, err
		}
	}
	if why == "" && r.holds != nil {
		var err error
		if why, err = r.holds(h, name); err != nil {
			return nil, err
		}
	}
	if why == "" {
		return nil, nil
	}
	names := []string{name}
	if r.unit && path.Base(name) != kubeletUnit { // the services' step says who starts the kubelet
		links, err := h.Enablements(path.Base(name))
		if err != nil {
			return nil, err
		}
		names = append(links, name)
	}
	return plan.Absent(h, why, names...)
}

// end has a service ended before its unit goes: one that failed would be listed
// as failed until the next boot. The kubelet is stopFirst's.
func end(ctx context.Context, h *host.Host, unit string, actions []plan.Action) ([]plan.Action, error) {
	if !h.HasSystemd() || path.Ext(unit) != ".service" || unit == kubeletUnit {
		return actions, nil
	}
	states, err := h.UnitProperty(ctx, "ActiveState", unit)
	if err != nil {
		return nil, err
	}
	switch states[0] {
	case "inactive":
		return actions, nil
	case "failed":
		return slices.Insert(actions, 0, service.Systemctl(h, "it failed, and goes", "reset-failed", unit)), nil
	default:
		return slices.Insert(actions, 0, service.Systemctl(h, "it goes", "stop", unit)), nil
	}
}

func below(names ...string) []string {
	paths := make([]string, len(names))
	for i, n := range names {
		paths[i] = path.Join(kubeletFolder, n)
	}
	return paths
}

// stopFirst stops a running kubelet before its files go from under it.
func (State) stopFirst(ctx context.Context, h *host.Host, actions []plan.Action) ([]plan.Action, error) {
	if len(actions) == 0 || !h.HasSystemd() {
		return actions, nil
	}
	active, err := h.IsActive(ctx, kubeletUnit)
	if err != nil || !active {
		return actions, err
	}
	stop := plan.Action{Verb: plan.Stop, Target: kubeletUnit, Reason: "it runs as another node", Do: func(ctx context.Context, _ plan.Progress) error {
		_, err := h.Run(ctx, host.Command{Argv: []string{"systemctl", "stop", kubeletUnit}})
		return err
	}}
	return slices.Insert(actions, 0, stop), nil
}
