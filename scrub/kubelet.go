package scrub

import (
	"context"
	"path"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

const kubeletDir = "/var/lib/kubelet"

// kubeletFiles is the kubelet's own account of its files.
const kubeletFiles = "https://kubernetes.io/docs/reference/node/kubelet-files/"

// kubeletRules are the rows of the kubelet's state and of containers' network.
func kubeletRules() []Rule {
	g := []string{"kubelet"}
	return []Rule{
		{
			ID: "kubelet-mounts", Phase: Unmount, Groups: g, Verb: plan.Unmount,
			Paths: nil, Owner: "kubelet",
			Why:         "what is mounted below the kubelet belongs to somebody else; a delete that walks through it destroys it",
			Regenerated: "nothing", Source: "eks-hybrid #664, rke2 #8296, kubernetes #120376",
			Find: unmountBelow(kubeletDir),
		},
		{
			ID: "kubelet-pki", Phase: State, Groups: append(g, "pki"), Verb: plan.Remove,
			Paths: []string{kubeletDir + "/pki/*"}, Owner: "kubelet",
			Why:         "the old node's certificates and private keys: a node that finds them asks for none of its own",
			Regenerated: "the kubelet asks for new certificates", Source: "cluster-api-provider-aws #1055",
		},
		{
			ID: "kubelet-manager-state", Phase: State, Groups: g, Verb: plan.Remove,
			Paths: []string{
				kubeletDir + "/cpu_manager_state", kubeletDir + "/memory_manager_state",
				kubeletDir + "/dra_manager_state", kubeletDir + "/dra_health_state",
			}, Owner: "kubelet",
			Why:         "another policy, processor count or memory size than the checkpoint's stops the kubelet",
			Regenerated: "the kubelet", Source: "bottlerocket #1465, talos #7504, kubernetes #84333",
		},
		{
			ID: "kubelet-checkpoints", Phase: State, Groups: g, Verb: plan.Remove,
			Paths: []string{
				kubeletDir + "/pod_status_manager_state", kubeletDir + "/allocated_pods_state",
				kubeletDir + "/actuated_pods_state", kubeletDir + "/graceful_node_shutdown_state",
				kubeletDir + "/checkpoints/*", kubeletDir + "/device-plugins/*",
			}, Owner: "kubelet",
			Why:         "allocations of pods and devices that are gone; a corrupt one stops the kubelet",
			Regenerated: "the kubelet", Source: kubeletFiles,
		},
		{
			ID: "kubelet-sockets", Phase: State, Groups: g, Verb: plan.Remove,
			Paths: []string{
				kubeletDir + "/plugins/*", kubeletDir + "/plugins_registry/*", kubeletDir + "/pod-resources/*", kubeletDir + "/pods-api/*",
			}, Owner: "kubelet and its plugins",
			Why: "sockets nobody listens on any more", Regenerated: "the kubelet and its plugins", Source: kubeletFiles,
		},
		{
			ID: "kubelet-unfinished", Phase: State, Groups: g, Verb: plan.Remove,
			Paths: []string{
				kubeletDir + "/.[0-9]*", kubeletDir + "/.tmp-graceful_node_shutdown_state*", kubeletDir + "/dra_health_state.tmp*",
				kubeletDir + "/tmpfs-noswap-test-*",
			}, Owner: "kubelet",
			Why:         "a kubelet that is killed while it writes a checkpoint leaves the half of it under another name",
			Regenerated: "nothing", Source: "kubernetes: pkg/kubelet/util/store, nodeshutdown/storage.go, cm/dra/healthinfo.go",
		},
		{
			ID: "kubelet-image-records", Phase: State, Groups: append(g, "secrets"), Verb: plan.Remove,
			Paths: []string{kubeletDir + "/image_manager/*"}, Owner: "kubelet 1.35 and newer",
			Why:         "which Secrets of the old cluster pulled which image, with hashes of them; pods of the new one must pull such an image again",
			Regenerated: "the kubelet; images without a record count as preloaded", Source: "kubernetes KEP-2535, pkg/kubelet/images/pullmanager",
		},
		{
			ID: "kubelet-pods", Phase: State, Groups: g, Verb: plan.Remove,
			Paths: []string{kubeletDir + "/pods/*", kubeletDir + "/volumes/*", kubeletDir + "/volumeplugins-state/*"}, Owner: "kubelet",
			Why:         "the old cluster's pods: ConfigMaps, tokens and emptyDirs lie here as plain files",
			Regenerated: "the kubelet", Source: kubeletFiles,
		},
		{
			ID: "kubelet-registry-credentials", Phase: State, Groups: append(g, "secrets"), Verb: plan.Remove,
			Paths: []string{kubeletDir + "/config.json", kubeletDir + "/.dockercfg", kubeletDir + "/.docker/config.json"}, Owner: "an administrator",
			Why: "registry credentials the kubelet would use", Regenerated: "nothing", Source: kubeletFiles,
		},
		{
			ID: "kubelet-unknown", Phase: State, Groups: g, Verb: Report,
			Paths: []string{kubeletDir + "/*"}, Owner: "unknown",
			Why:         "no rule knows this file; look whether it is state of the old cluster",
			Regenerated: "nothing", Source: kubeletFiles,
			Find: unknownKubeletFiles,
		},
		{
			ID: "pod-volumes", Phase: State, Groups: append(g, "volumes"), Verb: Report,
			Paths: volumeFolders, Owner: "Longhorn, Rook, OpenEBS, local-path-provisioner",
			Why:         "volumes of the old cluster's pods that live on this machine: they are in every node's image, and nobody but their owner may say that they can go",
			Regenerated: "nothing", Source: "the provisioners' documentation",
			Find: volumesOfPods,
		},
		{
			ID: "cni-config", Phase: State, Groups: []string{"network", "cni"}, Verb: plan.Remove,
			Paths: []string{"/etc/cni/net.d/*"}, Owner: "the CNI plugin's daemon",
			Why:         "a stale configuration makes the node Ready before its network plugin is there, and pods fail",
			Regenerated: "the CNI plugin's daemon", Source: "amazon-vpc-cni-k8s",
		},
		{
			ID: "cni-state", Phase: State, Groups: []string{"network", "cni"}, Verb: plan.Empty,
			Paths: []string{"/var/lib/cni"}, Owner: "CNI plugins",
			Why:         "leases of pods that are gone: a full range lets no pod start",
			Regenerated: "CNI plugins", Source: "amazon-eks-ami #1912",
		},
		{
			ID: "cni-node-name", Phase: State, Groups: []string{"network", "cni", "identity"}, Verb: plan.Remove,
			Paths: []string{
				"/var/lib/calico/*", "/var/lib/weave/*", "/etc/openvswitch/conf.db", "/etc/openvswitch/.conf.db.~lock~", "/etc/openvswitch/system-id.conf",
				"/var/lib/openvswitch/conf.db",
			}, Owner: "Calico, Weave Net, Open vSwitch (Antrea, OVN)",
			Why:         "the old node's name and its share of addresses: pods of the new node are set up as that one's, and two switches have one id",
			Regenerated: "the CNI plugin's daemon", Source: "calico: /var/lib/calico/nodename; weave #2427; ovs-ctl(8)",
		},
	}
}

// volumeFolders are where provisioners keep pods' volumes, as far as nobody
// configured another place.
var volumeFolders = []string{"/var/lib/longhorn", "/var/lib/rook", "/var/openebs", "/opt/local-path-provisioner"}

func volumesOfPods(_ context.Context, h *host.Host) (plan.Answer, error) {
	var answer plan.Answer
	for _, dir := range volumeFolders {
		names, err := glob(h, dir+"/*")
		if err != nil {
			return plan.Answer{}, err
		}
		if len(names) > 0 {
			answer.Find(dir, "pods' volumes lie here: move away what is needed, remove the rest")
		}
	}
	return answer, nil
}

// knownToRules says whether a rule settles an entry of the kubelet's folder, or
// the folder that it is; seccomp holds profiles that pods reference.
func knownToRules(entry string) bool {
	for _, r := range Table() {
		for _, p := range r.Paths {
			rest, below := strings.CutPrefix(p, kubeletDir+"/")
			first, _, _ := strings.Cut(rest, "/")
			if known, err := path.Match(first, entry); below && first != "*" && known && err == nil {
				return true
			}
		}
	}
	return entry == "seccomp"
}

func unknownKubeletFiles(_ context.Context, h *host.Host) (plan.Answer, error) {
	names, err := glob(h, kubeletDir+"/*")
	if err != nil {
		return plan.Answer{}, err
	}
	var answer plan.Answer
	for _, n := range names {
		switch base := path.Base(n); {
		case host.IsTemporary(base):
			answer.Act(removeAction(h, n, "a run that was killed left it"))
		case !knownToRules(base):
			answer.Find(n, "no rule knows it: remove it by hand if it is state of the old cluster")
		}
	}
	return answer, nil
}

// unmountBelow detaches every mount below the folders, the deepest first. On a
// mounted root the mounts are not the image's to detach: they are reported, and
// rules that would have to cross them fail.
func unmountBelow(dirs ...string) func(context.Context, *host.Host) (plan.Answer, error) {
	return func(_ context.Context, h *host.Host) (plan.Answer, error) {
		var answer plan.Answer
		for _, dir := range dirs {
			mounts, err := h.Files.MountsBelow(dir)
			if err != nil {
				return plan.Answer{}, err
			}
			for _, m := range mounts {
				answer.Act(plan.Action{Verb: plan.Unmount, Target: m.Path,
					Reason: m.Type + " of " + m.Source + " is mounted there",
					Do:     func(context.Context, plan.Progress) error { return h.Unmount(m.Path) }})
			}
		}
		return answer, nil
	}
}
