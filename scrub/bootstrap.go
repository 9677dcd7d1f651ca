package scrub

import (
	"context"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/templates"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// bootstrapRules are the rows of what a bootstrap wrote, with either contract.
func bootstrapRules() []Rule {
	g := []string{"bootstrap"}
	return []Rule{
		{
			ID: "cluster-ca", Phase: State, Groups: append(g, "pki"), Verb: plan.Remove,
			Paths: []string{"/etc/kubernetes/pki/*"}, Owner: "bootstrap.sh, nodeadm, kubeadm",
			Why:         "the old cluster's CA: with it the node trusts the wrong cluster and no other",
			Regenerated: "the bootstrap", Source: "seen: a captured node, refused with Unauthorized",
		},
		{
			ID: "static-pods", Phase: State, Groups: g, Verb: plan.Remove,
			Paths: []string{"/etc/kubernetes/manifests/*"}, Owner: "kubeadm, an administrator",
			Why: "static pods of the old cluster start on every node", Regenerated: "nothing", Source: "kubeadm reset",
		},
		{
			ID: "kubeadm-config", Phase: State, Groups: append(g, "secrets"), Verb: plan.Remove,
			Paths: []string{
				"/etc/kubernetes/admin.conf", "/etc/kubernetes/super-admin.conf", "/etc/kubernetes/kubelet.conf",
				"/etc/kubernetes/bootstrap-kubelet.conf", "/etc/kubernetes/controller-manager.conf", "/etc/kubernetes/scheduler.conf",
				"/etc/kubernetes/tmp/*", kubeletDir + "/kubeadm-flags.env", kubeletDir + "/instance-config.yaml",
			}, Owner: "kubeadm",
			Why: "credentials for the old cluster, and the old node's name and flags", Regenerated: "kubeadm", Source: "kubeadm reset",
		},
		{
			ID: "nodeconfig-kubelet", Phase: State, Groups: append(g, "kubelet"), Verb: plan.Remove,
			Paths: []string{
				kubeletDir + "/bootstrap-kubeconfig", "/etc/kubernetes/kubelet/config.json",
				"/etc/kubernetes/kubelet/config.json.d/00-nodeadm.conf", "/etc/kubernetes/kubelet/config.json.d/40-nodeadm.conf", "/etc/eks/kubelet/environment",
			}, Owner: "nodeadm",
			Why: "the old cluster's endpoint, name and settings", Regenerated: "each boot", Source: "eks-hybrid, amazon-eks-ami nodeadm",
		},
		{
			ID: "kubelet-drop-ins", Phase: State, Groups: append(g, "kubelet"), Verb: plan.Remove,
			Paths: []string{
				"/etc/systemd/system/kubelet.service.d/10-kubelet-args.conf",
				"/etc/systemd/system/kubelet.service.d/30-kubelet-extra-args.conf",
			}, Owner: "bootstrap.sh",
			Why:         "the old address, name, labels and taints; the second is rewritten only when arguments are given",
			Regenerated: "bootstrap.sh", Source: "amazon-eks-ami bootstrap.sh",
		},
		{
			ID: "generated-drop-ins", Phase: State, Groups: g, Verb: plan.Remove,
			Paths: []string{
				"/etc/systemd/system/*.service.d/environment.conf", "/etc/systemd/system.conf.d/environment.conf",
				"/etc/systemd/system/containerd.service.d/http-proxy.conf", "/etc/systemd/system/kubelet.service.d/http-proxy.conf",
				"/etc/containerd/base-runtime-spec.json", "/etc/eks/nodeadm/udev-net-manager/*",
			}, Owner: "nodeadm, user data",
			Why: "one cluster's environment and proxies, one instance's id", Regenerated: "each boot", Source: "amazon-eks-ami nodeadm",
		},
		{
			ID: "nodeconfig-sources", Phase: State, Groups: g, Verb: plan.Remove,
			Paths: []string{nodeConfigs}, Owner: "user data",
			Why:         "NodeConfigs that name the old cluster are merged over a new node's user data, and win; those that name none are the image's own and stay",
			Regenerated: "user data", Source: "amazon-eks-ami nodeadm, --config-source",
			Find: clusterNodeConfigs,
		},
		{
			ID: "soci-config", Phase: State, Groups: append(g, "containerd"), Verb: plan.Remove,
			Paths: []string{sociConfig}, Owner: "eksnode init",
			Why:         "how the old cluster wanted images pulled; one that first boot did not write stays",
			Regenerated: "first boot", Source: "NodeConfig, FastImagePull",
			Find: removeMarked(sociConfig),
		},
		{
			ID: "local-disks", Phase: State, Groups: g, Verb: plan.Remove,
			Paths: []string{"/.aws/mdadm.conf", "/etc/systemd/system/*.mount", "/etc/systemd/system/*.wants/*.mount"},
			Owner: "eksnode init, setup-local-disks",
			Why:   "units that mount another machine's instance store by its UUIDs, with the folders on it; other units stay", Regenerated: "first boot", Source: "amazon-eks-ami setup-local-disks",
			Find: localDisks,
		},
		{
			ID: "iptables-rules", Phase: State, Groups: []string{"network"}, Verb: plan.Remove,
			Paths: []string{"/etc/sysconfig/iptables", "/etc/iptables/rules.v4", "/etc/iptables/rules.v6", "/etc/iptables/iptables.rules"},
			Owner: "bootstrap.sh with dockerd, iptables-save",
			Why:   "the old cluster's KUBE-* rules come back at boot", Regenerated: "kube-proxy", Source: "amazon-eks-ami bootstrap.sh",
			Find: savedKubeRules,
		},
		{
			ID: "kubelet-kubeconfig", Phase: Restored, Groups: append(g, "kubelet", "templates"), Verb: plan.Restore,
			Paths: []string{templates.Kubeconfig}, Owner: "bootstrap.sh, nodeadm",
			Why:         "the old cluster's endpoint: every node started from the image is refused with Unauthorized",
			Regenerated: "the bootstrap fills in MASTER_ENDPOINT, CLUSTER_NAME and AWS_REGION", Source: "seen: a captured node, refused with Unauthorized",
			Find: restore(templates.Kubeconfig, reverseKubeconfig),
		},
		{
			ID: "kubelet-config", Phase: Restored, Groups: append(g, "kubelet", "templates"), Verb: plan.Restore,
			Paths: []string{templates.KubeletConfig}, Owner: "bootstrap.sh",
			Why:         "one instance's provider id, pod limit and reservations, edited in place",
			Regenerated: "the bootstrap", Source: "amazon-eks-ami bootstrap.sh",
			Find: restore(templates.KubeletConfig, reverseKubeletConfig),
		},
		{
			ID: "containerd-template", Phase: Restored, Groups: append(g, "containerd", "templates"), Verb: plan.Restore,
			Paths: []string{templates.ContainerdConfig}, Owner: "bootstrap.sh",
			Why:         "SANDBOX_IMAGE became one region's registry",
			Regenerated: "the bootstrap", Source: "amazon-eks-ami #938",
			Find: restore(templates.ContainerdConfig, reverseContainerdConfig),
		},
		{
			ID: "credential-provider-config", Phase: Restored, Groups: append(g, "kubelet", "templates"), Verb: plan.Restore,
			Paths: []string{credentialProviderConfig}, Owner: "eksnode init, nodeadm",
			Why:         "one kubelet version's list of registries in place of the image's; one that names others than ECR's was written by somebody and stays",
			Regenerated: "first boot", Source: "amazon-eks-ami nodeadm",
			Find: credentialProvider,
		},
		{
			ID: "containerd-config", Phase: Restored, Groups: append(g, "containerd"), Verb: plan.Remove,
			Paths: []string{"/etc/containerd/config.toml"}, Owner: "bootstrap.sh, nodeadm",
			Why:         "what a first boot wrote, or its filled-in copy of the template; a package's or a person's stays",
			Regenerated: "the bootstrap", Source: "amazon-eks-ami bootstrap.sh, nodeadm",
			Find: generatedContainerdConfig,
		},
		{
			ID: "bootstrap-units", Phase: Restored, Groups: append(g, "kubelet", "units"), Verb: plan.Remove,
			Paths: []string{"/etc/systemd/system/kubelet.service", "/etc/systemd/system/sandbox-image.service"}, Owner: "bootstrap.sh",
			Why:         "copies the bootstrap made of the image's own units",
			Regenerated: "the bootstrap", Source: "amazon-eks-ami bootstrap.sh",
			Find: copiedUnits,
		},
		{
			ID: "kubelet-enabled", Phase: Restored, Groups: append(g, "kubelet", "units"), Verb: plan.Disable,
			Paths: []string{"/etc/systemd/system/*.wants/kubelet.service", "/etc/systemd/system/*.wants/sandbox-image.service"}, Owner: "bootstrap.sh",
			Why:         "an enabled kubelet starts before the bootstrap and meets the old cluster's files, or none",
			Regenerated: "the bootstrap", Source: "amazon-eks-ami bootstrap.sh",
			Find: enablements("kubelet.service", "sandbox-image.service"),
		},
	}
}

// enablements plans the removal of the links that start units at boot.
func enablements(units ...string) func(context.Context, *host.Host) (plan.Answer, error) {
	return func(_ context.Context, h *host.Host) (plan.Answer, error) {
		var answer plan.Answer
		for _, u := range units {
			links, err := h.Enablements(u)
			if err != nil {
				return plan.Answer{}, err
			}
			for _, link := range links {
				answer.Act(plan.Action{Verb: plan.Disable, Target: link,
					Reason:  u + " would start at boot, before the bootstrap",
					Removal: host.Removal{Entries: 1},
					Do:      func(context.Context, plan.Progress) error { return removeLink(h, link) }})
			}
		}
		return answer, nil
	}
}

func removeLink(h *host.Host, link string) error {
	_, err := h.Files.RemoveTree(link)
	return err
}
