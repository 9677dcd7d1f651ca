package scrub

import (
	"context"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/templates"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// hostsRules has the rule for hosts(5).
func hostsRules() []Rule {
	return []Rule{
		{
			ID: "hosts", Phase: Identity, Groups: []string{"identity"}, Verb: plan.Write,
			Paths: []string{"/etc/hosts"}, Owner: "cloud-init, eksnode init",
			Why: "every node would resolve the builder machine's name to 127.0.1.1, and an old Outpost's control plane to its old addresses; other lines stay", Regenerated: "cloud-init, with manage_etc_hosts; first boot", Source: "hosts(5); amazon-eks-ami nodeadm",
			Find: ownLinesInHosts,
		},
	}
}

// ownLinesInHosts removes two kinds of lines from /etc/hosts: those that map
// 127.0.1.1 to this machine's name (Debian's custom, see hosts(5); cloud-init
// writes them again), and those that `eksnode init` marked, with addresses of
// an Outpost.
func ownLinesInHosts(_ context.Context, h *host.Host) (plan.Answer, error) {
	const name = "/etc/hosts"
	text, err := h.Content(name)
	if err != nil {
		return plan.Answer{}, err
	}
	kept, why := withoutOwnLines(string(text))
	if len(why) == 0 {
		return plan.Answer{}, nil
	}
	attr, err := h.Files.Attributes(name)
	if err != nil {
		return plan.Answer{}, err
	}
	return plan.Acts(plan.Action{Verb: plan.Write, Target: name, Reason: strings.Join(why, "; "),
		Do: func(context.Context, plan.Progress) error {
			return h.Files.WriteFile(name, []byte(kept), attr)
		}}), nil
}

// withoutOwnLines returns a hosts(5) without the machine's own lines, and a
// description of the removed lines.
func withoutOwnLines(text string) (left string, why []string) {
	var kept strings.Builder
	drop := func(reason string) {
		if !slices.Contains(why, reason) {
			why = append(why, reason)
		}
	}
	for line := range strings.Lines(text) {
		switch f := strings.Fields(line); {
		case len(f) > 1 && f[0] == "127.0.1.1":
			drop("127.0.1.1 has this machine's name")
		case strings.HasSuffix(strings.TrimSpace(line), templates.HostsMark):
			drop("first boot wrote where the old cluster's control plane is")
		default:
			kept.WriteString(line)
		}
	}
	return kept.String(), why
}
