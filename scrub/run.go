package scrub

import (
	"context"
	"io/fs"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// runRules has the rule for /run.
func runRules() []Rule {
	return []Rule{
		{
			ID: "run-left", Phase: Inspect, Groups: []string{"kubelet", "network"}, Verb: Report,
			Paths: []string{"/run/**"}, Owner: "daemons, the VPC CNI",
			Why:         "the image keeps state of another boot in /run, such as the leases in aws-node/ipam.json; a node never sees these files, but everyone with the image can read them",
			Regenerated: "every boot", Source: "file-hierarchy(7), amazon-vpc-cni-k8s",
			Find: runLeft,
		},
	}
}

// runLeft reports files below /run of an image that does not run.
func runLeft(ctx context.Context, h *host.Host) (plan.Answer, error) {
	if h.IsLive() {
		return plan.Answer{NotApplicable: "the rule is for image roots: a running machine needs the files in /run"}, nil
	}
	var answer plan.Answer
	for _, dir := range []string{"/run", "/var/run"} {
		if st, err := h.Files.Lstat(dir); err != nil || !st.IsDir() { // a link points to the other folder
			if err = ignoreMissing(err); err != nil {
				return plan.Answer{}, err
			}
			continue
		}
		foreign, err := h.Files.Walk(ctx, dir, dir, func(e host.Entry, err error) error {
			if err == nil && !e.IsDir() && e.Mode()&fs.ModeSymlink == 0 {
				answer.Find(e.Path, "left by an earlier boot: remove it")
			}
			return err
		})
		if err != nil {
			return plan.Answer{}, err
		}
		answer.Findings = append(answer.Findings, foreignFindings(h, foreign)...)
	}
	return answer, nil
}
