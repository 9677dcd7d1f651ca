package scrub

import "github.com/eksnode/packer-plugin-eksnode/plan"

// clusterRules are the rules for the state of other Kubernetes distributions
// and of control planes. The operator's own files stay: configurations, images
// for offline installation and manifests that the server deploys.
func clusterRules() []Rule {
	g := []string{"clusters", "secrets"}
	return []Rule{
		{
			ID: "etcd-data", Phase: State, Groups: g, Verb: plan.Remove,
			Paths: []string{
				"/var/lib/etcd/*", "/var/lib/etcd-events/*", "/var/lib/etcd-backup/*", "/var/lib/rancher/etcd/*", "/var/lib/minikube/etcd/*", "/opt/etcd/member/*", "/data/etcd/member/*", "/mnt/etcd/member/*",
				"/etc/ssl/etcd/ssl/*", "/etc/kubernetes/ssl/*",
			}, Owner: "etcd, kubeadm, kubespray, RKE",
			Why:         "the database contains all Secrets of the old cluster, and a copy would start as the same member; after the scrub the machine is no control plane",
			Regenerated: "kubeadm init or join, etcd with an empty folder", Source: "kubeadm reset; etcd: disaster recovery",
		},
		(Rule{
			ID: "k3s-state", Phase: State, Groups: g, Verb: plan.Remove,
			Keep: []string{
				"/var/lib/rancher/k3s/server/manifests", "/var/lib/rancher/k3s/server/static",
				"/var/lib/rancher/rke2/server/manifests", "/var/lib/rancher/rke2/server/static",
			},
			Why:         "the node would join the old cluster again with its certificates, tokens and node password, and a server would start with the old database",
			Regenerated: "k3s and RKE2, when they start; images of agent/images are imported again", Source: "k3s-uninstall.sh, rke2-uninstall.sh; Rancher: preparing machines for templates",
		}).of(
			program{"k3s", rancherState("k3s")},
			program{"RKE2", append(rancherState("rke2"), "/var/lib/rancher/rke2/agent/pod-manifests/*")},
			program{"Rancher", []string{"/etc/rancher/node/*", "/var/lib/rancher/agent/rancher2_connection_info.json", "/etc/rancher/agent/cattle-id", "/var/lib/rancher/agent/applied/*"}},
		),
		{
			ID: "k0s-state", Phase: State, Groups: g, Verb: plan.Remove,
			Paths: []string{
				"/var/lib/k0s/pki/*", "/var/lib/k0s/etcd/*", "/var/lib/k0s/db/*", "/var/lib/k0s/kubelet.conf", "/var/lib/k0s/kubelet-bootstrap.conf",
				"/var/lib/k0s/kubelet/*", "/var/lib/k0s/konnectivity.conf", "/etc/k0s/k0stoken",
			}, Owner: "k0s",
			Why:         "the node would join the old cluster again with its certificates and token, and a controller would start with the old database",
			Regenerated: "k0s, when it starts; a worker needs a new token", Source: "k0s reset",
		},
	}
}

// rancherState are the paths of k3s or RKE2 for one node and its cluster.
func rancherState(name string) []string {
	dir, etc := "/var/lib/rancher/"+name, "/etc/rancher/"+name
	return []string{
		dir + "/server/*", dir + "/agent/*.crt", dir + "/agent/*.key", dir + "/agent/*.kubeconfig", dir + "/agent/etc/*load-balancer.json",
		dir + "/agent/etc/cni/*", dir + "/agent/etc/flannel/*", etc + "/" + name + ".yaml",
	}
}
