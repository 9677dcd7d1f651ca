package scrub

import (
	"context"
	"path"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// nodeRules holds the row of machines that are no nodes.
func nodeRules() []Rule {
	return []Rule{
		{
			ID: "not-a-node", Phase: Inspect, Groups: []string{"assets"}, Verb: Report,
			Paths: []string{manifest.Path}, Owner: "eksnode, or whoever made the image",
			Why:         "a machine without eksnode's manifest is a node where it has a kubelet, a container runtime and a bootstrap, as Amazon's own AMIs; an image of any other machine joins nothing",
			Regenerated: "provisioning", Source: "amazon-eks-ami: nodeadm, bootstrap.sh",
			Find: notANode,
		},
	}
}

// programFolders are where nodes have their programs; /opt/bin on Flatcar.
var programFolders = []string{"/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/local/sbin", "/opt/bin", "/bin"}

// nodePart is something without which no machine is a node of EKS: one of some
// programs, or one of some files.
type nodePart struct {
	name            string
	programs, files []string
}

// nodeParts are what a machine that others made must have to be a node: Amazon's
// own AMIs have the first two with nodeadm, or, on Amazon Linux 2, bootstrap.sh.
var nodeParts = []nodePart{
	{name: "kubelet", programs: []string{"kubelet"}},
	{name: "a container runtime (containerd or crio)", programs: []string{"containerd", "crio"}},
	{name: "a bootstrap (nodeadm or /etc/eks/bootstrap.sh)", programs: []string{"nodeadm"}, files: []string{"/etc/eks/bootstrap.sh"}},
}

// there says whether the machine has the part.
func (p nodePart) there(h *host.Host) (bool, error) {
	names := p.files
	for _, program := range p.programs {
		for _, folder := range programFolders {
			names = append(names, path.Join(folder, program))
		}
	}
	for _, name := range names {
		st, err := h.Files.Stat(name)
		if leadsNowhere(err) {
			continue
		}
		if err != nil || st.Mode().IsRegular() {
			return err == nil, err
		}
	}
	return false, nil
}

// notANode reports a machine that nobody made a node: neither eksnode, which
// leaves its manifest, nor others.
func notANode(_ context.Context, h *host.Host) (plan.Answer, error) {
	m, err := manifest.Load(h)
	if err != nil || m != nil {
		return plan.Answer{}, err // can-join compares the machine with its manifest
	}
	missing, err := missingParts(h)
	if err != nil {
		return plan.Answer{}, err
	}
	if missing == nil {
		return plan.Answer{}, nil
	}
	return plan.Finds("machine", "this machine is no node: "+manifest.Path+" is missing, and so is "+strings.Join(missing, ", ")+"; provision it, or skip the rule not-a-node where others make it a node"), nil
}

// missingParts names what a machine that others made lacks to be a node.
func missingParts(h *host.Host) ([]string, error) {
	var missing []string
	for _, p := range nodeParts {
		there, err := p.there(h)
		if err != nil {
			return nil, err
		}
		if !there {
			missing = append(missing, p.name)
		}
	}
	return missing, nil
}

// isNode says whether an image wants to be a node: it speaks one of the
// bootstrap contracts.
func isNode(h *host.Host) (bool, error) {
	for _, p := range []string{"/etc/eks", "/var/lib/kubelet"} {
		if there, err := h.Exists(p); there || err != nil {
			return there, err
		}
	}
	return false, nil
}
