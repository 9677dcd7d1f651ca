package scrub

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// environmentRules has the rule for the environments that a first boot gives to
// services.
func environmentRules() []Rule {
	return []Rule{
		{
			ID: "generated-environments", Phase: State, Groups: []string{"bootstrap"}, Verb: plan.Remove,
			Paths: []string{"/etc/systemd/system/*.service.d/environment.conf", "/etc/systemd/system.conf.d/environment.conf", sociDropIn},
			Owner: "nodeadm, eksnode init",
			Why:   "services of every node would get the old cluster's environment and proxies; a drop-in that a person wrote stays", Regenerated: "each boot", Source: "amazon-eks-ami nodeadm, instance.environment",
			Find: generatedEnvironments,
		},
	}
}

// sociDropIn is the drop-in by which nodeadm starts SOCI's snapshotter before
// containerd.
const sociDropIn = "/etc/systemd/system/containerd.service.d/10-soci-snapshotter.conf"

// rendered matches the whole of a drop-in as nodeadm renders it: assignments in
// quotes, and nothing else.
var rendered = regexp.MustCompile(`^(?:\[Service\]\n(?:Environment="[^"=\n]+=(?:[^"\\\n]|\\.)*"\n)+|\[Manager\]\n(?:DefaultEnvironment="[^"=\n]+=(?:[^"\\\n]|\\.)*"\n)+)$`)

// generatedEnvironments plans the removal of drop-ins that a first boot wrote.
// eksnode marks its files. Amazon's nodeadm does not, so its form counts only
// where nodeadm has configured the machine.
func generatedEnvironments(_ context.Context, h *host.Host) (plan.Answer, error) {
	names, foreign, err := matching(h, environmentRules()[0].Paths)
	if err != nil {
		return plan.Answer{}, err
	}
	answer := plan.Answer{Findings: foreignFindings(h, foreign)}
	configured, err := nodeadmRan(h)
	if err != nil {
		return plan.Answer{}, err
	}
	for _, name := range names {
		if st, err := h.Files.Stat(name); leadsNowhere(err) || err == nil && st.IsDir() {
			continue
		}
		text, err := h.Content(name)
		if err != nil {
			return plan.Answer{}, err
		}
		switch {
		case isInits(text), configured && name != sociDropIn && isRendered(string(text)), name == sociDropIn && isSOCIOrder(text):
			answer.Act(removeAction(h, name, "first boot wrote it"))
		}
	}
	return answer, nil
}

// isRendered reports whether nodeadm could have rendered a drop-in: it sorts the
// variables by name.
func isRendered(text string) bool {
	if !rendered.MatchString(text) {
		return false
	}
	var names []string
	for line := range strings.Lines(text) {
		if _, assignment, ok := strings.Cut(line, `"`); ok {
			name, _, _ := strings.Cut(assignment, "=")
			names = append(names, name)
		}
	}
	return slices.IsSorted(names) && len(slices.Compact(slices.Clone(names))) == len(names)
}

// isSOCIOrder reports whether a drop-in only orders containerd after SOCI's
// snapshotter.
func isSOCIOrder(text []byte) bool {
	return slices.Equal(configLines(text), []string{"[Unit]", "Requires=soci-snapshotter.service", "After=soci-snapshotter.service"})
}

// nodeadmRan reports whether nodeadm has configured this machine: files that
// only a first boot by NodeConfig writes are there. The rule runs before the one
// that removes them.
func nodeadmRan(h *host.Host) (bool, error) {
	for _, name := range []string{"/etc/eks/kubelet/environment", "/etc/kubernetes/kubelet/config.json", "/etc/kubernetes/kubelet/config.json.d/40-nodeadm.conf", "/etc/kubernetes/kubelet/config.json.d/00-nodeadm.conf"} {
		if there, err := h.Exists(name); err != nil || there {
			return there, err
		}
	}
	return false, nil
}
