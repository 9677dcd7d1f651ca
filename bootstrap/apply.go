package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/disks"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/leftover"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/render"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// Daemons lists the values of Selection.Daemons.
func Daemons() []string { return []string{string(render.Containerd), string(render.Kubelet)} }

// Check returns an error for every unknown phase or daemon in the selection.
func (s Selection) Check() error {
	var errs []error
	for _, p := range s.Skip {
		if !slices.Contains(Phases(), p) {
			errs = append(errs, fmt.Errorf("unknown phase %q; known are %s, %s", p, Config, Run))
		}
	}
	for _, d := range s.Daemons {
		if d != "" && !slices.Contains(Daemons(), d) {
			errs = append(errs, fmt.Errorf("unknown daemon %q; known are %s", d, strings.Join(Daemons(), ", ")))
		}
	}
	return errors.Join(errs...)
}

// Items returns the steps that configure and start the node, in order.
func (s Surroundings) Items(n *node.Node, pick Selection) ([]plan.Item, error) {
	files, err := render.Files(n)
	if err != nil {
		return nil, err
	}
	var items []plan.Item
	if !slices.Contains(pick.Skip, Config) {
		items = append(items,
			leftover.State{Node: n, Files: files},
			configuration{files, pick.Daemons, n.Form == node.NodeConfig},
			controlPlane{n, s.Lookup},
			system{files},
		)
	}
	if slices.Contains(pick.Skip, Run) {
		return items, nil
	}
	items = append(items, disks.Disks{LocalStorage: n.Disks, InstanceID: n.Instance.ID})
	if n.MountBPF {
		items = append(items, bpf{})
	}
	return append(items, starting(n, files, pick.Daemons)...), nil
}

// Apply applies and logs the items. The error joins all failures.
func (s Surroundings) Apply(ctx context.Context, h *host.Host, items []plan.Item) ([]plan.Outcome, error) {
	return plan.Apply(ctx, h, items, logSink{s.Log})
}

// logSink logs one line for each action and each finished item.
type logSink struct{ log func(string) }

func (logSink) Begin(string, string, int)                  {}
func (logSink) Progress(string, plan.Action, int64, int64) {}

func (l logSink) End(o plan.Outcome) {
	for _, a := range o.Actions {
		l.log(fmt.Sprintf("%s: %s %s (%s)", o.Item, a.Verb, a.Target, a.Reason))
	}
	for _, a := range o.Findings {
		l.log(fmt.Sprintf("warning: %s: %s: %s", o.Item, a.Target, a.Reason))
	}
	switch o.Status {
	case plan.Unchanged:
		l.log(o.Item + ": nothing to do")
	case plan.Failed:
		l.log(o.Item + ": failed: " + o.Error)
	case plan.Skipped:
		l.log(o.Item + ": skipped")
	case plan.Done:
	}
}
