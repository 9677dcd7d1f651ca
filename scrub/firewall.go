package scrub

import (
	"bytes"
	"context"
	"regexp"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// firewallRules has the rule for the node's own firewall.
func firewallRules() []Rule {
	return []Rule{
		{
			ID: "host-firewall", Phase: Inspect, Groups: []string{"network"}, Verb: Report, ofNodes: true,
			Paths: []string{"/etc/systemd/system/*.wants/{firewalld,ufw,nftables,iptables,netfilter-persistent}.service"}, Owner: "firewalld, ufw, hardened base images",
			Why:         "the node joins, but a firewall that does not forward cuts its pods off the network; on EKS, security groups and network policies filter traffic",
			Regenerated: "nothing", Source: "kubeadm's preflight, amazon-vpc-cni-k8s #743",
			Find: firewallsOn,
		},
	}
}

// firewall is a service that filters packets from boot on.
type firewall struct {
	unit string
	// rules are its files; the firewall blocks pods if a file matches blocks. A
	// firewall without files always blocks.
	rules  []string
	blocks *regexp.Regexp
}

var (
	// The chain's policy alone does not block: units of the kubelet set it.
	blocksChain = regexp.MustCompile(`(?m)^-A FORWARD -j (DROP|REJECT)`)
	firewalls   = []firewall{
		{unit: "firewalld.service"},
		{"ufw.service", []string{"/etc/ufw/ufw.conf"}, regexp.MustCompile(`(?m)^ENABLED=["']?yes`)},
		{"nftables.service", []string{"/etc/nftables.conf", "/etc/sysconfig/nftables.conf"}, regexp.MustCompile(`hook forward\b[^}]*\b(policy drop|drop\s*}|reject[^;}\n]*\s*})`)},
		{"iptables.service", []string{"/etc/sysconfig/iptables", "/etc/iptables/iptables.rules"}, blocksChain},
		{"netfilter-persistent.service", []string{"/etc/iptables/rules.v4"}, blocksChain},
	}
)

// firewallsOn reports firewalls that start at boot and block the traffic of
// pods.
func firewallsOn(_ context.Context, h *host.Host) (plan.Answer, error) {
	if node, err := isNode(h); err != nil || !node {
		return plan.Answer{}, err
	}
	var answer plan.Answer
	for _, f := range firewalls {
		links, err := h.Enablements(f.unit)
		if err != nil {
			return plan.Answer{}, err
		}
		if len(links) == 0 {
			continue
		}
		blocks := f.blocks == nil
		for _, name := range f.rules {
			text, err := h.Content(name)
			if err != nil {
				return plan.Answer{}, err
			}
			blocks = blocks || f.blocks.Match(text)
		}
		if blocks {
			answer.Find(links[0], f.unit+" starts at boot and drops packets of pods: disable the unit, or allow forwarded packets and port 10250")
		}
	}
	return answer, nil
}

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
