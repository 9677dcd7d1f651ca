package scrub

import (
	"bytes"
	"context"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// iptablesRestoreRules has the rule for the unit that loads saved firewall rules
// on Amazon Linux 2.
func iptablesRestoreRules() []Rule {
	return []Rule{
		{
			ID: "iptables-restore", Phase: Restored, Groups: []string{"bootstrap", "network", "units"}, Verb: plan.Disable,
			Paths: []string{iptablesRestore, "/etc/systemd/system/*.wants/iptables-restore.service"}, Owner: "bootstrap.sh with dockerd",
			Why:         "without its file of rules, the unit fails on every node; with a file of rules, it stays",
			Regenerated: "bootstrap.sh with dockerd", Source: "amazon-eks-ami bootstrap.sh",
			Find: restoresNothing,
		},
	}
}

const iptablesRestore = "/etc/systemd/system/iptables-restore.service"

// restoresNothing plans the removal of the unit's copy and enablement if the
// file that it loads is missing. The original in /etc/eks stays.
func restoresNothing(ctx context.Context, h *host.Host) (plan.Answer, error) {
	const rules = "/etc/sysconfig/iptables"
	if there, err := h.Exists(rules); err != nil || there {
		return plan.Answer{}, err
	}
	answer, err := enablements("iptables-restore.service")(ctx, h)
	if err != nil {
		return plan.Answer{}, err
	}
	for i := range answer.Actions {
		answer.Actions[i].Reason = "would start at boot, and " + rules + " is missing"
	}
	copied, err := removeWhere(h, "bootstrap.sh copied it from /etc/eks, and "+rules+" is missing",
		func(unit []byte) bool { return bytes.Contains(unit, []byte("iptables-restore < "+rules)) }, iptablesRestore)
	answer.Add(copied)
	return answer, err
}
