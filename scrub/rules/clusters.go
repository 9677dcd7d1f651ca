package rules

import (
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
	"github.com/eksnode/packer-plugin-eksnode/scrub/secrets"
)

// clusterRules are the rules for the state of other Kubernetes distributions
// and of control planes. The operator's own files stay: configurations, images
// for offline installation and manifests that the server deploys.
func clusterRules() []rule.Rule {
	g := []string{"clusters", "secrets"}
	return []rule.Rule{
		{
			ID: "etcd-data", Phase: rule.State, Groups: g, Verb: plan.Remove,
			Paths: []string{
				"/var/lib/etcd/*", "/var/lib/rancher/etcd/*", "/var/lib/minikube/etcd/*", "/opt/etcd/member/*", "/data/etcd/member/*", "/mnt/etcd/member/*",
				"/etc/ssl/etcd/*", "/etc/kubernetes/ssl/*", "/etc/etcd.env", "/etc/etcd-events.env", "/var/lib/etcd-*/*", "/mnt/master-vol-*/*",
			}, Owner: "etcd, kubeadm, kubespray, RKE",
			Why:         "the database contains all Secrets of the old cluster, and a copy would start as the same member; after the scrub the machine is no control plane",
			Regenerated: "kubeadm init or join, etcd with an empty folder", Source: "kubeadm reset; etcd: disaster recovery",
		},
		of(rule.Rule{
			ID: "k3s-state", Phase: rule.State, Groups: g, Verb: plan.Remove,
			Keep: []string{
				"/var/lib/rancher/k3s/server/manifests", "/var/lib/rancher/k3s/server/static",
				"/var/lib/rancher/rke2/server/manifests", "/var/lib/rancher/rke2/server/static",
			},
			Why:         "the node would join the old cluster again with its certificates, tokens and node password, and a server would start with the old database",
			Regenerated: "k3s and RKE2, when they start; images of agent/images are imported again", Source: "k3s-uninstall.sh, rke2-uninstall.sh; Rancher: preparing machines for templates",
		},
			program{"k3s", rancherState("k3s")},
			program{"RKE2", append(rancherState("rke2"), "/var/lib/rancher/rke2/agent/pod-manifests/*")},
			program{"Rancher", []string{"/etc/rancher/node/*", "/var/lib/rancher/agent/rancher2_connection_info.json", "/etc/rancher/agent/cattle-id", "/var/lib/rancher/agent/applied/*"}},
		),
		{
			ID: "k0s-state", Phase: rule.State, Groups: g, Verb: plan.Remove,
			Paths: []string{
				"/var/lib/k0s/pki/*", "/var/lib/k0s/etcd/*", "/var/lib/k0s/db/*", "/var/lib/k0s/kubelet.conf", "/var/lib/k0s/kubelet-bootstrap.conf",
				"/var/lib/k0s/kubelet/*", "/var/lib/k0s/konnectivity.conf", "/etc/k0s/k0stoken",
			}, Owner: "k0s",
			Why:         "the node would join the old cluster again with its certificates and token, and a controller would start with the old database",
			Regenerated: "k0s, when it starts; a worker needs a new token", Source: "k0s reset",
		},
		of(rule.Rule{
			ID: "cluster-tools", Phase: rule.State, Groups: g, Verb: plan.Remove,
			Why:         "the files have keys, addresses and name servers of the old cluster, or start its programs at boot",
			Regenerated: "the program that joins the machine to a cluster", Source: "kubespray: role reset; kops: nodeup; nodeadm uninstall of eks-hybrid",
		},
			program{"kubespray", []string{
				"/etc/systemd/resolved.conf.d/kubespray.conf", "/etc/dhcp/dhclient.d/zdnsupdate.sh", "/etc/dhcp/dhclient-exit-hooks.d/zdnsupdate",
			}},
			program{"kOps", []string{
				"/etc/kubernetes/kops/*", "/etc/kubernetes/kops-controller/*", "/etc/kubernetes/cloud.config", "/etc/kubernetes/authn.config", "/etc/sysconfig/kops-configuration", "/etc/systemd/system/kops-configuration.service",
				"/srv/kubernetes/*", "/srv/sshproxy/*", "/etc/srv/kubernetes/*", "/etc/srv/sshproxy/*", "/var/lib/kops/*", "/var/lib/kube-*/*", "/var/lib/kubectl/kubeconfig", "/var/cache/nodeup/*",
				rule.KubeletDir + "/kubelet.conf", rule.KubeletDir + "/credential-provider.conf",
			}},
			program{"hybrid nodes' nodeadm", []string{"/etc/iam/pki/*", "/etc/roles-anywhere/pki/*", "/etc/aws/hybrid/config", "/etc/systemd/system/aws_signing_helper_update.service"}},
		),
		reports(rule.Rule{
			ID: "cluster-settings", Phase: rule.State, Groups: g,
			Why:         "the machine's own settings trust, or lead to, the old cluster; the files may also have the operator's lines",
			Regenerated: "nothing", Source: "kubespray: role reset; kops: nodeup",
		}, clusterSettings),
		{
			ID: "kubeadm-unknown", Phase: rule.State, Groups: []string{"clusters"}, Verb: rule.Report,
			Paths: []string{"/etc/kubernetes/*"}, Owner: "an administrator",
			Why:         "configurations of a control plane, such as for audits, webhooks and encryption, belong to the old cluster; on machines without kubeadm the folder's files stay",
			Regenerated: "nothing", Source: "kubeadm: extraArgs and extraVolumes of the control plane",
			Look: unknownToKubeadm,
		},
	}
}

// clusterSettings are files in which tools of clusters leave their settings beside
// those of others.
var clusterSettings = []leftover{
	{program: "kubespray", paths: []string{
		"/usr/local/share/ca-certificates/etcd-ca.crt", "/usr/local/share/ca-certificates/kube-ca.crt", "/etc/ssl/certs/etcd-ca.pem", "/etc/ssl/certs/kube-ca.pem",
		"/etc/pki/ca-trust/source/anchors/etcd-ca.crt", "/etc/pki/ca-trust/source/anchors/kube-ca.crt",
	}, advice: "remove the file, and run update-ca-certificates or update-ca-trust"},
	{program: "kubespray", paths: []string{
		"/etc/systemd/system/calico-node.service", "/etc/systemd/system/etcd.service", "/etc/systemd/system/etcd-events.service", "/etc/systemd/system/k8s-certs-renew.*",
	}, advice: "disable and remove the unit"},
	{program: "kubespray", paths: []string{"/etc/NetworkManager/conf.d/dns.conf"}, says: saying(`global-dns`), advice: "remove the file, which has the old cluster's name servers"},
	{program: "kubespray", paths: []string{"/etc/nginx/nginx.conf", "/etc/haproxy/haproxy.cfg"}, says: saying(`kube[_-]api`), advice: "remove the file, which leads to the old control plane"},
	{program: "kubespray", paths: []string{"/etc/dhclient.conf", "/etc/dhcp/dhclient.conf"}, says: saying(`(?m)^# Ansible entries`), advice: "remove the lines between the marks, which have the old cluster's name servers"},
	{program: "kOps", paths: []string{"/etc/sysconfig/kubelet", "/etc/default/kubelet"}, says: saying(`--(hostname-override|kubeconfig|cloud-config|node-labels|register-with-taints|cluster-dns)`), advice: "remove the flags of the old cluster"},
}

// rancherState are the paths of k3s or RKE2 for one node and its cluster.
func rancherState(name string) []string {
	dir, etc := "/var/lib/rancher/"+name, "/etc/rancher/"+name
	return []string{
		dir + "/server/*", dir + "/agent/*.crt", dir + "/agent/*.key", dir + "/agent/*.kubeconfig", dir + "/agent/etc/*load-balancer.json",
		dir + "/agent/etc/cni/*", dir + "/agent/etc/flannel/*", etc + "/" + name + ".yaml",
	}
}

// Programs that leave files of their own.
var (
	kubeadm = nodePart{name: "kubeadm", programs: []string{"kubeadm"}}
	nodeadm = nodePart{name: "nodeadm", programs: []string{"nodeadm"}}
)

// kubernetesFolders are the folders in /etc/kubernetes that other rules cover,
// or that bootstraps of EKS use.
var kubernetesFolders = []string{"kubelet", "manifests", "pki", "tmp"}

func unknownToKubeadm(d *rule.Draft) {
	if !kubeadm.there(d) {
		return
	}
	for _, name := range d.Glob(d.Paths...) {
		if !slices.Contains(kubernetesFolders, path.Base(name)) &&
			!slices.ContainsFunc(bootstrapRules(), func(r rule.Rule) bool { return rule.Kept(r.Paths, name) }) {
			d.Find(name, "no rule covers this file of a machine with kubeadm: remove it by hand if it belongs to the old "+
				"cluster")
		}
	}
}

var serverOf = regexp.MustCompile(`(?m)(?:^|[\s{,"'])server["']?\s*:\s*["']?(https?://[^\s"'},]+)`)

// serversIn returns the hosts of a kubeconfig that identify a cluster: names, and
// IP addresses with the port or the scheme.
func serversIn(kubeconfig string) []string {
	var hosts []string
	for _, m := range serverOf.FindAllStringSubmatch(kubeconfig, -1) {
		u, err := url.Parse(m[1])
		if err != nil {
			continue
		}
		name := strings.ToLower(u.Hostname())
		switch _, err := netip.ParseAddr(name); {
		case !isClustersOwn(name):
		case err != nil:
			hosts = append(hosts, name)
		case u.Port() != "":
			// Other services may have the same address.
			hosts = append(hosts, strings.ToLower(u.Host))
		default:
			hosts = append(hosts, "https://"+strings.ToLower(u.Host))
		}
	}
	return hosts
}

// isClustersOwn reports whether a host is of one cluster, and not of every
// machine or every cluster. The rule host-ids-left finds endpoints of EKS.
func isClustersOwn(name string) bool {
	if slices.ContainsFunc(secrets.HostPatterns, func(p secrets.Pattern) bool { return p.Re().MatchString(name) }) {
		return false
	}
	return len(name) >= 8 && strings.ContainsAny(name, ".:") && !strings.HasPrefix(name, "127.") && !strings.HasPrefix(name, "localhost") && !strings.HasPrefix(name, "kubernetes.default")
}
