package rule

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// ForeignFindings reports each foreign mount once.
func ForeignFindings(h *host.Host, mounts []*host.ForeignMount) []plan.Finding {
	var findings []plan.Finding
	for _, m := range mounts {
		if About(findings, m.Path) || h.IsLive() && Kept(lent, m.Path) {
			continue
		}
		findings = append(findings, plan.Finding{Target: m.Path,
			Reason: m.Why + ", not a partition of the machine: the rule did not read or change anything on this " +
				"mount; unmount " + m.Path + ", or skip the rule"})
	}
	return findings
}

// About reports whether one of the findings is about a target.
func About(findings []plan.Finding, target string) bool {
	return slices.ContainsFunc(findings, func(f plan.Finding) bool { return f.Target == target })
}

// lent lists paths that container engines and systemd mount while a machine
// runs. The image has empty files of its own below these mounts.
var lent = []string{"/etc/hostname", "/etc/hosts", "/etc/machine-id", "/etc/resolv.conf", "/var/lib/cloud/seed/*"}

var fileVerbs = []plan.Verb{plan.Remove, plan.Empty, plan.Write, plan.Restore, plan.Link, plan.Mkdir, plan.Enable,
	plan.Disable, plan.Wipe}

// WithoutForeign replaces actions on foreign mounts with findings, for every
// rule.
func WithoutForeign(ctx context.Context, h *host.Host, answer plan.Answer) (plan.Answer, error) {
	own := plan.Answer{Findings: answer.Findings, Notes: answer.Notes, NotApplicable: answer.NotApplicable}
	var foreign []*host.ForeignMount
	for _, a := range answer.Actions {
		if err := context.Cause(ctx); err != nil {
			return answer, err
		}
		if !path.IsAbs(a.Target) || !slices.Contains(fileVerbs, a.Verb) {
			own.Act(a)
			continue
		}
		m, err := h.Files.Foreign(a.Target, a.Target, a.Verb != plan.Remove && a.Verb != plan.Disable)
		switch {
		case err != nil:
			return answer, err
		case m == nil:
			own.Act(a)
			if a.Take == nil {
				continue
			}
			inside, err := h.Files.ForeignBelow(a.Target)
			if err != nil {
				return answer, err
			}
			foreign = append(foreign, slices.DeleteFunc(inside, func(m *host.ForeignMount) bool {
				return strings.HasPrefix(m.Path, KubeletDir+"/") // another rule unmounts or reports these
			})...)
		default:
			foreign = append(foreign, m)
		}
	}
	for _, f := range ForeignFindings(h, foreign) {
		if !About(own.Findings, f.Target) {
			own.Find(f.Target, f.Reason)
		}
	}
	return own, nil
}

// KubeletDir has the state of the kubelet.
const KubeletDir = "/var/lib/kubelet"
