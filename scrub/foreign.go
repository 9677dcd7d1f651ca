package scrub

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// foreignFindings report foreign mounts, each once.
func foreignFindings(h *host.Host, mounts []*host.ForeignMount) []plan.Action {
	var actions []plan.Action
	for _, m := range mounts {
		known := slices.ContainsFunc(actions, func(a plan.Action) bool { return a.Target == m.Path })
		if known || h.IsLive() && kept(lent, m.Path) {
			continue
		}
		actions = append(actions, plan.Action{Verb: plan.Decide, Target: m.Path,
			Reason: m.Why + ", not the machine's own: nothing on this mount was looked at or changed; unmount " + m.Path + ", or skip the rule"})
	}
	return actions
}

// lent is what container engines, systemd and whoever starts a machine mount
// for as long as it runs. The image has its own files below, which are empty.
var lent = []string{"/etc/hostname", "/etc/hosts", "/etc/machine-id", "/etc/resolv.conf", "/var/lib/cloud/seed/*"}

// fileVerbs change a file or folder.
var fileVerbs = []plan.Verb{plan.Remove, plan.Empty, plan.Write, plan.Restore, plan.Link, plan.Mkdir, plan.Enable, plan.Disable, plan.Wipe}

// withoutForeign puts findings in the place of actions on foreign mounts,
// whatever planned them.
func withoutForeign(ctx context.Context, h *host.Host, actions []plan.Action) ([]plan.Action, error) {
	var own []plan.Action
	var foreign []*host.ForeignMount
	for _, a := range actions {
		if err := context.Cause(ctx); err != nil {
			return actions, err
		}
		if !path.IsAbs(a.Target) || !slices.Contains(fileVerbs, a.Verb) {
			own = append(own, a)
			continue
		}
		m, err := h.Files.Foreign(a.Target, a.Target, a.Verb != plan.Remove && a.Verb != plan.Disable)
		switch {
		case err != nil:
			return actions, err
		case m == nil:
			own = append(own, a)
			if a.Take == nil {
				continue
			}
			inside, err := h.Files.ForeignBelow(a.Target)
			if err != nil {
				return actions, err
			}
			foreign = append(foreign, slices.DeleteFunc(inside, func(m *host.ForeignMount) bool {
				return strings.HasPrefix(m.Path, kubeletDir+"/") // another rule detaches or names those
			})...)
		default:
			foreign = append(foreign, m)
		}
	}
	for _, f := range foreignFindings(h, foreign) {
		if !slices.ContainsFunc(own, func(a plan.Action) bool { return a.Verb == plan.Decide && a.Target == f.Target }) {
			own = append(own, f)
		}
	}
	return own, nil
}
