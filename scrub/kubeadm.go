package scrub

import (
	"context"
	"path"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// kubeadmRules are the rules for machines that kubeadm joined to a cluster.
func kubeadmRules() []Rule {
	g := []string{"clusters"}
	return []Rule{
		{
			ID: "kubeadm-unknown", Phase: State, Groups: g, Verb: Report,
			Paths: []string{"/etc/kubernetes/*"}, Owner: "an administrator",
			Why:         "configurations of a control plane, such as for audits, webhooks and encryption, belong to the old cluster; on machines without kubeadm the folder's files stay",
			Regenerated: "nothing", Source: "kubeadm: extraArgs and extraVolumes of the control plane",
			Find: unknownToKubeadm,
		},
	}
}

// kubeadm is the program that made the machine a node.
var kubeadm = nodePart{name: "kubeadm", programs: []string{"kubeadm"}}

// kubernetesFolders are the folders in /etc/kubernetes that other rules cover,
// or that bootstraps of EKS use.
var kubernetesFolders = []string{"kubelet", "manifests", "pki", "tmp"}

func unknownToKubeadm(_ context.Context, h *host.Host) (plan.Answer, error) {
	if there, err := kubeadm.there(h); err != nil || !there {
		return plan.Answer{}, err
	}
	names, err := glob(h, "/etc/kubernetes/*")
	if err != nil {
		return plan.Answer{}, err
	}
	var answer plan.Answer
	for _, name := range names {
		if !slices.Contains(kubernetesFolders, path.Base(name)) && !slices.ContainsFunc(bootstrapRules(), func(r Rule) bool { return kept(r.Paths, name) }) {
			answer.Find(name, "no rule covers this file of a machine with kubeadm: remove it by hand if it belongs to the old cluster")
		}
	}
	return answer, nil
}
