package scrub

import (
	"context"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/containerd"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// imageRules has the rule for the image's container images.
func imageRules() []Rule {
	return []Rule{
		{
			ID: "images-there", Phase: Inspect, Groups: []string{"assets", "containerd"}, Verb: Report, ofNodes: true,
			Paths: []string{"/var/lib/containerd"}, Owner: "containerd",
			Why:         "every node would pull an image again that containerd has lost or has not pinned; without the pause image no pod starts",
			Regenerated: "provisioning the image again", Source: "amazon-eks-ami #2061 #2066 #2122",
			Find: imagesLost,
		},
	}
}

// imagesLost reports container images that the manifest records but that
// containerd no longer has, or has changed. If containerd does not run,
// imagesLost reads its metadata.
func imagesLost(ctx context.Context, h *host.Host) (plan.Answer, error) {
	m, err := manifest.Load(h)
	if err != nil || m == nil || len(m.Images) == 0 {
		return plan.Answer{}, err
	}
	have, err := containerd.Images(ctx, h)
	if err != nil {
		return plan.Answer{}, err
	}
	var answer plan.Answer
	for _, i := range m.Images {
		if lack := containerd.Lacks(have, i.Name, i.Digest); lack != "" {
			answer.Find("image "+i.Name, lack+": provision again")
		}
	}
	return answer, nil
}
