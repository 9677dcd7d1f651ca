package bootstrap

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/node"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/render"
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

// former clears away what the machine has from when it was another node: what
// the kubelet wrote, and what Amazon Linux 2's own script wrote for it. With it
// the kubelet starts as somebody else, joins and serves no logs, or does not
// start. What only might be of a former node is told and stays.
type former struct {
	node  *node.Node
	files []render.File
}

func (former) ID() string    { return "former-node" }
func (former) Phase() string { return string(Config) }

// leftover is a row of the table: files of one kind, and when they go. With
// several conditions any is enough.
type leftover struct {
	paths []string
	// of are the traces of another node that condemn the files.
	of []trace
	// unless spares a file that a trace condemns, for what it holds.
	unless func(h *host.Host, name string) (bool, error)
	// holds condemns a file for what it holds, whoever wrote it; it returns why.
	holds func(h *host.Host, name string) (why string, err error)
	// unit says that the file is systemd's: links that start it go too.
	unit bool
}

// leftovers is the table. docs/why-scrub.md shows what each does to a node.
func (f former) leftovers() []leftover {
	anotherNode := []trace{otherCluster, otherInstance, nobody}
	dropIns := path.Join(systemUnits, kubeletUnit+".d")
	return []leftover{
		{paths: below("pki"), of: []trace{otherCluster, otherInstance, otherCertificate}},
		{paths: below("cpu_manager_state", "memory_manager_state"), of: anotherNode, holds: f.otherPolicy},
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
		{paths: []string{render.Kubeconfig}, holds: f.strayKubeconfig},
	}
}

// Plan implements plan.Item. Done means that nothing the kubelet finds is of
// another cluster or node, but what only a person can tell.
func (f former) Plan(ctx context.Context, h *host.Host) (plan.Answer, error) {
	traces, err := f.traces(h)
	if err != nil {
		return plan.Answer{}, fmt.Errorf("looking for a former node: %w", err)
	}
	var actions []plan.Action
	units := false
	for _, row := range f.leftovers() {
		for _, name := range row.paths {
			more, err := row.plan(h, name, traces)
			if err != nil {
				return plan.Answer{}, fmt.Errorf("looking for what a former node left: %w", err)
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
		actions = append(actions, systemctl(h, "systemd forgets the units that went", "daemon-reload"))
	}
	if actions, err = f.stopFirst(ctx, h, actions); err != nil {
		return plan.Answer{}, err
	}
	doubts, err := suspects(h, actions)
	return plan.Answer{Actions: actions, Findings: doubts}, err
}

// plan plans the removal of one of the row's files.
func (l leftover) plan(h *host.Host, name string, traces map[trace]string) ([]plan.Action, error) {
	if there, err := plan.IsThere(h, name); err != nil || !there {
		return nil, err
	}
	why := ""
	for _, t := range l.of {
		if why = traces[t]; why != "" {
			break
		}
	}
	if why != "" && l.unless != nil {
		if spared, err := l.unless(h, name); err != nil || spared {
			return nil, err
		}
	}
	if why == "" && l.holds != nil {
		var err error
		if why, err = l.holds(h, name); err != nil {
			return nil, err
		}
	}
	if why == "" {
		return nil, nil
	}
	names := []string{name}
	if l.unit && path.Base(name) != kubeletUnit { // the services' step says who starts the kubelet
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
		return slices.Insert(actions, 0, systemctl(h, "it failed, and goes", "reset-failed", unit)), nil
	default:
		return slices.Insert(actions, 0, systemctl(h, "it goes", "stop", unit)), nil
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
func (f former) stopFirst(ctx context.Context, h *host.Host, actions []plan.Action) ([]plan.Action, error) {
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
