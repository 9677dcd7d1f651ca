package scrub

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// joinRules has the rule that checks whether a node can join.
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

// differs describes how a file differs from its record in the manifest.
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
