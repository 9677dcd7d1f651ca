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

// joinRules holds the row of what a node needs to join.
func joinRules() []Rule {
	return []Rule{
		{
			ID: "can-join", Phase: Inspect, Groups: []string{"assets"}, Verb: Report,
			Paths: []string{manifest.Path}, Owner: "eksnode",
			Why:         "an image that lacks a part, or carries another than its manifest says, joins nothing",
			Regenerated: "provisioning again", Source: "the image's own manifest",
			Find: canJoin,
		},
	}
}

// canJoin compares the image with its manifest: every part is there and is what
// was recorded. An image that others built has no manifest, and is asked only
// for the programs that every node needs.
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
		answer.Find("kubelet", fmt.Sprintf("it is %s, but the image is for Kubernetes %s", kubelet.Version, m.KubernetesVersion))
	}
	for _, p := range m.Packages {
		if p.Version == "" {
			answer.Find(p.Name, "the manifest records no version of this package: provision again")
		}
	}
	return answer, nil
}

// differs says how a file is not what the manifest recorded.
func differs(ctx context.Context, h *host.Host, f manifest.File) (string, error) {
	if f.Link != "" {
		target, err := h.Files.ReadlinkIfPossible(f.Path)
		switch {
		case isMissing(err):
			return "it is missing", nil
		case err != nil:
			return "it is no link any more", nil
		case target != f.Link:
			return "it leads to " + target + ", not to " + f.Link, nil
		}
		return "", nil
	}
	st, err := h.Files.Stat(f.Path)
	if isMissing(err) {
		return "it is missing", nil
	}
	if err != nil {
		return "", err
	}
	if st.Size() != f.Size {
		return fmt.Sprintf("it has %d bytes, not the %d that were installed", st.Size(), f.Size), nil
	}
	in, err := h.Files.OpenRegular(f.Path)
	if err != nil {
		return "", err
	}
	got, err := hashFile(ctx, in, f.Path)
	if err == nil && got.SHA256 != f.SHA256 {
		return "its content is not what was installed", nil
	}
	return "", err
}

// programsThere asks a node that others made for its programs. What a machine
// lacks to be a node at all is a finding of not-a-node, which may be left out.
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
			answer.Find(p.name, "no node joins without it; looked in "+strings.Join(programFolders, ", "))
		}
	}
	return answer, nil
}
