package rules

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
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

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

func (p nodePart) there(d *rule.Draft) bool {
	if p.script && bootstrapScript(d) != "" {
		return true
	}
	return slices.ContainsFunc(programs(p.programs...), func(name string) bool {
		st := d.Stat(name)
		return st != nil && st.Mode().IsRegular()
	})
}

// notANode reports a machine that is no node: it has neither eksnode's manifest
// nor the parts of another node.
func notANode(d *rule.Draft) {
	if loaded(d) != nil || d.Err != nil {
		return // the rule can-join covers machines with a manifest
	}
	if missing := missingParts(d); missing != nil {
		d.Find("machine", "this machine is not a node: "+manifest.Path+" is missing, and so is "+
			strings.Join(missing, ", ")+"; provision the machine, or skip the rule not-a-node if another tool "+
			"makes it a node")
	}
}

// missingParts lists the parts that a machine without a manifest lacks.
func missingParts(d *rule.Draft) []string {
	var missing []string
	for _, p := range nodeParts {
		if !p.there(d) {
			missing = append(missing, p.name)
		}
	}
	return missing
}

// SeemsNode reports whether a machine has something of a node.
func SeemsNode(d *rule.Draft) bool {
	return IsNode(d) || slices.ContainsFunc(nodeParts, func(p nodePart) bool { return !p.common && p.there(d) })
}

// IsNode reports whether the image supports one of the bootstrap contracts.
func IsNode(d *rule.Draft) bool {
	if d.Exists("/var/lib/kubelet") {
		return true
	}
	for _, folder := range []string{"/etc/eks", path.Dir(recordPath)} {
		entries, err := afero.ReadDir(d.Host.Files, folder)
		if rule.LeadsNowhere(err) {
			continue
		}
		// A scrub's record says nothing about the machine.
		other := func(e fs.FileInfo) bool {
			p := path.Join(folder, e.Name())
			return p != path.Dir(recordPath) && p != recordPath
		}
		if d.Failed(err) || len(entries) == 0 && folder == "/etc/eks" || slices.ContainsFunc(entries, other) {
			return d.Err == nil
		}
	}
	return false
}

// canJoin compares the image with its manifest: every recorded part exists and
// is unchanged. On an image without a manifest, canJoin only checks the
// programs that every node needs.
func canJoin(d *rule.Draft) {
	m := loaded(d)
	if m == nil {
		programsThere(d)
		return
	}
	files := slices.Clone(m.Files)
	for _, a := range m.Assets {
		files = append(files, a.Files...)
	}
	for _, f := range files {
		reason, err := differs(d.Ctx, d.Host, f)
		d.Failed(err)
		if reason != "" {
			d.Find(f.Path, reason+": provision again")
		}
	}
	kubelet, ok := m.Asset("kubelet")
	if ok && kubelet.Version != m.KubernetesVersion {
		d.Find("kubelet", fmt.Sprintf("version %s, but the image is for Kubernetes %s", kubelet.Version,
			m.KubernetesVersion))
	}
	for _, p := range m.Packages {
		if p.Version == "" {
			d.Find(p.Name, "the manifest records no version of this package: provision again")
		}
	}
}

func differs(ctx context.Context, h *host.Host, f manifest.File) (string, error) {
	if f.Link != "" {
		target, err := h.Files.ReadlinkIfPossible(f.Path)
		switch {
		case rule.IsMissing(err):
			return "missing", nil
		case err != nil:
			return "no longer a link", nil
		case target != f.Link:
			return "points to " + target + ", not to " + f.Link, nil
		}
		return "", nil
	}
	st, err := h.Files.Stat(f.Path)
	if rule.IsMissing(err) {
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
	got, err := rule.HashFile(ctx, in, f.Path)
	if err == nil && got.SHA256 != f.SHA256 {
		return "content differs from the installed file", nil
	}
	return "", err
}

// programsThere checks that a node without a manifest has its programs. The
// rule not-a-node reports a machine that is no node at all, and can be skipped.
func programsThere(d *rule.Draft) {
	if missingParts(d) != nil {
		return
	}
	for _, p := range []nodePart{
		{name: "kubelet", programs: []string{"kubelet"}},
		{name: "containerd", programs: []string{"containerd", "crio"}},
		{name: "runc", programs: []string{"runc", "crun"}},
	} {
		if !p.there(d) {
			d.Find(p.name, "no node joins without this program; searched in "+strings.Join(rule.ProgramFolders, ", "))
		}
	}
}
