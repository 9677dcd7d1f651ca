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
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
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
			look: notANode,
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

func (p nodePart) there(d *draft) bool {
	if p.script && bootstrapScript(d) != "" {
		return true
	}
	return slices.ContainsFunc(programs(p.programs...), func(name string) bool {
		st := d.stat(name)
		return st != nil && st.Mode().IsRegular()
	})
}

// notANode reports a machine that is no node: it has neither eksnode's manifest
// nor the parts of another node.
func notANode(d *draft) {
	if d.manifest() != nil || d.err != nil {
		return // the rule can-join covers machines with a manifest
	}
	if missing := missingParts(d); missing != nil {
		d.find("machine", "this machine is not a node: "+manifest.Path+" is missing, and so is "+strings.Join(missing, ", ")+
			"; provision the machine, or skip the rule not-a-node if another tool makes it a node")
	}
}

// missingParts lists the parts that a machine without a manifest lacks.
func missingParts(d *draft) []string {
	var missing []string
	for _, p := range nodeParts {
		if !p.there(d) {
			missing = append(missing, p.name)
		}
	}
	return missing
}

// seemsNode reports whether a machine has something of a node.
func seemsNode(ctx context.Context, h *host.Host) (bool, plan.Answer, error) {
	d := &draft{ctx: ctx, h: h}
	node := isNode(d) || slices.ContainsFunc(nodeParts, func(p nodePart) bool { return !p.common && p.there(d) })
	return node && d.err == nil, plan.Answer{}, d.err
}

// aNode is isNode as a condition of rules.
func aNode(ctx context.Context, h *host.Host) (bool, plan.Answer, error) {
	d := &draft{ctx: ctx, h: h}
	return isNode(d), plan.Answer{}, d.err
}

// isNode reports whether the image supports one of the bootstrap contracts.
func isNode(d *draft) bool {
	if d.exists("/var/lib/kubelet") {
		return true
	}
	for _, folder := range []string{"/etc/eks", path.Dir(recordPath)} {
		entries, err := afero.ReadDir(d.h.Files, folder)
		if leadsNowhere(err) {
			continue
		}
		// A scrub's record says nothing about the machine.
		other := func(e fs.FileInfo) bool {
			p := path.Join(folder, e.Name())
			return p != path.Dir(recordPath) && p != recordPath
		}
		if d.failed(err) || len(entries) == 0 && folder == "/etc/eks" || slices.ContainsFunc(entries, other) {
			return d.err == nil
		}
	}
	return false
}

func joinRules() []Rule {
	return []Rule{
		{
			ID: "can-join", Phase: Inspect, Groups: []string{"assets"}, Verb: Report, ofNodes: true,
			Paths: []string{manifest.Path}, Owner: "eksnode",
			Why:         "a node cannot join if a part is missing or differs from the image's manifest",
			Regenerated: "provisioning the image again", Source: "the image's own manifest",
			look: canJoin,
		},
	}
}

// canJoin compares the image with its manifest: every recorded part exists and
// is unchanged. On an image without a manifest, canJoin only checks the
// programs that every node needs.
func canJoin(d *draft) {
	m := d.manifest()
	if m == nil {
		programsThere(d)
		return
	}
	files := slices.Clone(m.Files)
	for _, a := range m.Assets {
		files = append(files, a.Files...)
	}
	for _, f := range files {
		reason, err := differs(d.ctx, d.h, f)
		d.failed(err)
		if reason != "" {
			d.find(f.Path, reason+": provision again")
		}
	}
	kubelet, ok := m.Asset("kubelet")
	if ok && kubelet.Version != m.KubernetesVersion {
		d.find("kubelet", fmt.Sprintf("version %s, but the image is for Kubernetes %s", kubelet.Version, m.KubernetesVersion))
	}
	for _, p := range m.Packages {
		if p.Version == "" {
			d.find(p.Name, "the manifest records no version of this package: provision again")
		}
	}
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
func programsThere(d *draft) {
	if missingParts(d) != nil {
		return
	}
	for _, p := range []nodePart{
		{name: "kubelet", programs: []string{"kubelet"}},
		{name: "containerd", programs: []string{"containerd", "crio"}},
		{name: "runc", programs: []string{"runc", "crun"}},
	} {
		if !p.there(d) {
			d.find(p.name, "no node joins without this program; searched in "+strings.Join(programFolders, ", "))
		}
	}
}
