package scrub

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// nodeRules has the rule for machines that are no nodes.
func nodeRules() []Rule {
	return []Rule{
		{
			ID: "not-a-node", Phase: Inspect, Groups: []string{"assets"}, Verb: Report, ofNodes: true,
			Paths: []string{manifest.Path}, Owner: "eksnode, or another image builder",
			Why:         "an image without a kubelet, a container runtime and a bootstrap cannot join; an image with eksnode's manifest is checked by the rule can-join",
			Regenerated: "provisioning", Source: "amazon-eks-ami: nodeadm, bootstrap.sh",
			Find: notANode,
		},
	}
}

// programFolders are the folders of a node's programs; /opt/bin is Flatcar's.
var programFolders = []string{"/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/local/sbin", "/opt/bin", "/bin"}

// nodePart is a part that every EKS node has: one of some programs, or a
// bootstrap script.
type nodePart struct {
	name     string
	programs []string
	// script says that a bootstrap script is also such a part.
	script bool
	// common says that machines that are no nodes have the part too.
	common bool
}

// nodeParts are the parts of a node without eksnode's manifest. Amazon's own
// AMIs have the first two, and nodeadm or, on Amazon Linux 2, bootstrap.sh.
var nodeParts = []nodePart{
	{name: "kubelet", programs: []string{"kubelet"}},
	{name: "a container runtime (containerd or crio)", programs: []string{"containerd", "crio"}, common: true},
	{name: "a bootstrap (nodeadm or /etc/eks/bootstrap.sh)", programs: []string{"nodeadm"}, script: true},
}

func (p nodePart) there(h *host.Host) (bool, error) {
	if p.script {
		if script, err := bootstrapScript(h); err != nil || script != "" {
			return err == nil, err
		}
	}
	var names []string
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

// notANode reports a machine that is no node: it has neither eksnode's manifest
// nor the parts of another node.
func notANode(_ context.Context, h *host.Host) (plan.Answer, error) {
	m, err := manifest.Load(h)
	if err != nil || m != nil {
		return plan.Answer{}, err // the rule can-join covers machines with a manifest
	}
	missing, err := missingParts(h)
	if err != nil {
		return plan.Answer{}, err
	}
	if missing == nil {
		return plan.Answer{}, nil
	}
	return plan.Finds("machine", "this machine is not a node: "+manifest.Path+" is missing, and so is "+strings.Join(missing, ", ")+"; provision the machine, or skip the rule not-a-node if another tool makes it a node"), nil
}

// missingParts lists the parts that a machine without a manifest lacks.
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

// seemsNode reports whether a machine has something of a node.
func seemsNode(_ context.Context, h *host.Host) (bool, plan.Answer, error) {
	node, err := isNode(h)
	for _, p := range nodeParts {
		if !node && err == nil && !p.common {
			node, err = p.there(h)
		}
	}
	return node, plan.Answer{}, err
}

// aNode is isNode as a condition of rules.
func aNode(_ context.Context, h *host.Host) (bool, plan.Answer, error) {
	node, err := isNode(h)
	return node, plan.Answer{}, err
}

// isNode reports whether the image supports one of the bootstrap contracts.
func isNode(h *host.Host) (bool, error) {
	if there, err := h.Exists("/var/lib/kubelet"); there || err != nil {
		return there, err
	}
	for _, folder := range []string{"/etc/eks", path.Dir(recordPath)} {
		entries, err := afero.ReadDir(h.Files, folder)
		if leadsNowhere(err) {
			continue
		}
		// A scrub's record says nothing about the machine.
		other := func(e fs.FileInfo) bool {
			p := path.Join(folder, e.Name())
			return p != path.Dir(recordPath) && p != recordPath
		}
		if err != nil || len(entries) == 0 && folder == "/etc/eks" || slices.ContainsFunc(entries, other) {
			return err == nil, err
		}
	}
	return false, nil
}

func joinRules() []Rule {
	return []Rule{
		{
			ID: "can-join", Phase: Inspect, Groups: []string{"assets"}, Verb: Report, ofNodes: true,
			Paths: []string{manifest.Path}, Owner: "eksnode",
			Why:         "a node cannot join if a part is missing or differs from the image's manifest",
			Regenerated: "provisioning the image again", Source: "the image's own manifest",
			Find: canJoin,
		},
	}
}

// canJoin compares the image with its manifest: every recorded part exists and
// is unchanged. On an image without a manifest, canJoin only checks the
// programs that every node needs.
func canJoin(ctx context.Context, h *host.Host) (plan.Answer, error) {
	m, err := manifest.Load(h)
	if err != nil {
		return plan.Answer{}, err
	}
	if m == nil {
		return programsThere(h)
	}
	var answer plan.Answer
	files := slices.Clone(m.Files)
	for _, a := range m.Assets {
		files = append(files, a.Files...)
	}
	for _, f := range files {
		reason, err := differs(ctx, h, f)
		if err != nil {
			return plan.Answer{}, err
		}
		if reason != "" {
			answer.Find(f.Path, reason+": provision again")
		}
	}
	kubelet, ok := m.Asset("kubelet")
	if ok && kubelet.Version != m.KubernetesVersion {
		answer.Find("kubelet", fmt.Sprintf("version %s, but the image is for Kubernetes %s", kubelet.Version, m.KubernetesVersion))
	}
	for _, p := range m.Packages {
		if p.Version == "" {
			answer.Find(p.Name, "the manifest records no version of this package: provision again")
		}
	}
	return answer, nil
}

func differs(ctx context.Context, h *host.Host, f manifest.File) (string, error) {
	if f.Link != "" {
		target, err := h.Files.ReadlinkIfPossible(f.Path)
		switch {
		case isMissing(err):
			return "missing", nil
		case err != nil:
			return "no longer a link", nil
		case target != f.Link:
			return "points to " + target + ", not to " + f.Link, nil
		}
		return "", nil
	}
	st, err := h.Files.Stat(f.Path)
	if isMissing(err) {
		return "missing", nil
	}
	if err != nil {
		return "", err
	}
	if st.Size() != f.Size {
		return fmt.Sprintf("has %d bytes; the installed file had %d", st.Size(), f.Size), nil
	}
	in, err := h.Files.OpenRegular(f.Path)
	if err != nil {
		return "", err
	}
	got, err := hashFile(ctx, in, f.Path)
	if err == nil && got.SHA256 != f.SHA256 {
		return "content differs from the installed file", nil
	}
	return "", err
}

// programsThere checks that a node without a manifest has its programs. The
// rule not-a-node reports a machine that is no node at all, and can be skipped.
func programsThere(h *host.Host) (plan.Answer, error) {
	if missing, err := missingParts(h); err != nil || missing != nil {
		return plan.Answer{}, err
	}
	var answer plan.Answer
	for _, p := range []nodePart{
		{name: "kubelet", programs: []string{"kubelet"}},
		{name: "containerd", programs: []string{"containerd", "crio"}},
		{name: "runc", programs: []string{"runc", "crun"}},
	} {
		there, err := p.there(h)
		if err != nil {
			return plan.Answer{}, err
		}
		if !there {
			answer.Find(p.name, "no node joins without this program; searched in "+strings.Join(programFolders, ", "))
		}
	}
	return answer, nil
}
