package scrub

import (
	"context"
	"net"
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
			Paths: []string{"/etc/hosts"}, Owner: "cloud-init, eksnode init, kOps, kubespray",
			Why: "every node would resolve the builder machine's name to 127.0.1.1, and an old Outpost's control plane to its old addresses; other lines stay", Regenerated: "cloud-init, with manage_etc_hosts; first boot", Source: "hosts(5); amazon-eks-ami nodeadm",
			Find: ownLinesInHosts,
		},
	}
}

// ownLinesInHosts removes three kinds of lines from /etc/hosts: those that map
// 127.0.1.1 to this machine's name (Debian's custom, see hosts(5); cloud-init
// writes them again), those with addresses of a cluster's endpoint, which
// `eksnode init`, nodeadm and bootstrap.sh add on an Outpost, and hostBlocks.
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
	end, at := "", 0 // the end of a tool's block, and the place in the text
	for line := range strings.Lines(text) {
		if last := hostBlocks[strings.TrimSpace(line)]; end == "" && strings.Contains(text[at:], last) {
			end = last
		}
		at += len(line)
		switch f := strings.Fields(line); {
		case end != "":
			drop("a cluster's tool wrote where its machines are")
			if strings.TrimSpace(line) == end {
				end = ""
			}
		case len(f) > 1 && f[0] == "127.0.1.1":
			drop("127.0.1.1 has this machine's name")
		case strings.HasSuffix(strings.TrimSpace(line), templates.HostsMark), namesEndpoint(f):
			drop("first boot wrote where the old cluster's control plane is")
		default:
			kept.WriteString(line)
		}
	}
	return kept.String(), why
}

// hostBlocks are the first and last lines of the blocks that kOps and kubespray
// write.
var hostBlocks = map[string]string{
	"# Begin host entries managed by kops - do not edit": "# End host entries managed by kops",
	"# Ansible inventory hosts BEGIN":                    "# Ansible inventory hosts END",
}

// namesEndpoint reports whether the fields of a line give an address of a
// cluster's endpoint.
func namesEndpoint(fields []string) bool {
	if len(fields) < 2 || net.ParseIP(fields[0]) == nil {
		return false
	}
	return slices.ContainsFunc(fields[1:], func(name string) bool {
		name, _, _ = strings.Cut(name, "#")
		return clusterEndpoint().MatchString(name)
	})
}

// clusterEndpoint matches the name of an EKS cluster's endpoint, of every
// partition, with IPv4 and with IPv6.
var clusterEndpoint = expression(`(?i)\b[0-9a-f]{32}\.([a-z0-9-]+\.)*(eks(-[a-z]+)?\.[a-z0-9.-]+|[a-z0-9-]+\.api\.aws\b)`)
