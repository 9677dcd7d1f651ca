package scrub

import (
	"bytes"
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
			ID: "soci-config", Phase: State, Groups: append(g, "containerd"), Verb: plan.Remove,
			Paths: []string{sociConfig}, Owner: "eksnode init",
			Why:         "how the old cluster wanted images pulled; one that first boot did not write stays",
			Regenerated: "first boot", Source: "NodeConfig, FastImagePull",
			Find: removeMarked(sociConfig),
		},
		{
			ID: "iptables-rules", Phase: State, Groups: []string{"network"}, Verb: plan.Remove,
			Paths: []string{"/etc/sysconfig/iptables", "/etc/iptables/rules.v4", "/etc/iptables/rules.v6", "/etc/iptables/iptables.rules"},
			Owner: "bootstrap.sh with dockerd, iptables-save",
			Why:   "the old cluster's KUBE-* rules come back at boot", Regenerated: "kube-proxy", Source: "amazon-eks-ami bootstrap.sh",
			Find: savedKubeRules,
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

// isInits says whether `eksnode init` wrote a file: it says so in the first
// line of those whose form has comments.
func isInits(text []byte) bool { return bytes.HasPrefix(text, []byte(templates.InitMark+"\n")) }

// removeMarked plans the removal of those files that `eksnode init` wrote; a
// package's or a person's file of the same name stays.
func removeMarked(names ...string) func(context.Context, *host.Host) (plan.Answer, error) {
	return func(_ context.Context, h *host.Host) (plan.Answer, error) {
		return removeWhere(h, "first boot wrote it", isInits, names...)
	}
}

const sociConfig = "/etc/soci-snapshotter-grpc/config.toml"

// savedKubeRules removes saved firewall rules that hold a cluster's chains;
// others are an administrator's.
func savedKubeRules(_ context.Context, h *host.Host) (plan.Answer, error) {
	return removeWhere(h, "it holds the old cluster's chains", func(text []byte) bool {
		return bytes.Contains(text, []byte("KUBE-")) || bytes.Contains(text, []byte("AWS-SNAT-CHAIN"))
	},
		"/etc/sysconfig/iptables", "/etc/sysconfig/ip6tables", "/etc/iptables/rules.v4", "/etc/iptables/rules.v6",
		"/etc/iptables/iptables.rules", "/etc/iptables/ip6tables.rules",
	)
}

// copiedUnits removes the units that bootstrap.sh copies into
// /etc/systemd/system from the image's own folder; the originals stay.
func copiedUnits(_ context.Context, h *host.Host) (plan.Answer, error) {
	var answer plan.Answer
	for original, copied := range map[string]string{
		"/etc/eks/containerd/kubelet-containerd.service": "/etc/systemd/system/kubelet.service",
		"/etc/eks/containerd/sandbox-image.service":      "/etc/systemd/system/sandbox-image.service",
	} {
		there, err := h.Exists(original)
		if err != nil {
			return plan.Answer{}, err
		}
		own, err := templateOf(h, copied)
		if err != nil {
			return plan.Answer{}, err
		}
		if !there || own != nil {
			continue
		}
		a, err := planPath(h, plan.Remove, copied, "the bootstrap copied it from "+original)
		if err != nil {
			return plan.Answer{}, err
		}
		answer.Add(a)
	}
	return answer, nil
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
