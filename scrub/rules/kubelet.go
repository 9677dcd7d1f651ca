package rules

import (
	"context"
	"path"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

const kubeletFiles = "https://kubernetes.io/docs/reference/node/kubelet-files/"

// kubeletRules are the rules for the state of the kubelet and of the container
// network.
func kubeletRules() []rule.Rule {
	g := []string{"kubelet"}
	return []rule.Rule{
		{
			ID: "kubelet-mounts", Phase: rule.Unmount, Groups: g, Verb: plan.Unmount,
			Paths: []string{rule.KubeletDir + "/**"}, Owner: "kubelet",
			Why:         "deleting the kubelet's state would also delete the data of volumes that are mounted there",
			Regenerated: "nothing", Source: "eks-hybrid #664, rke2 #8296, kubernetes #120376",
			Look: unmountBelow,
		},
		{
			ID: "kubelet-pki", Phase: rule.State, Groups: append(g, "pki"), Verb: plan.Remove,
			Paths: []string{rule.KubeletDir + "/pki/*"}, Owner: "kubelet",
			Why:         "a node that finds these certificates does not request its own",
			Regenerated: "the kubelet, which requests new certificates", Source: "cluster-api-provider-aws #1055",
		},
		{
			ID: "kubelet-manager-state", Phase: rule.State, Groups: g, Verb: plan.Remove,
			Paths: []string{
				rule.KubeletDir + "/cpu_manager_state", rule.KubeletDir + "/memory_manager_state",
				rule.KubeletDir + "/dra_manager_state", rule.KubeletDir + "/dra_health_state",
			}, Owner: "kubelet",
			Why:         "the kubelet stops if its policy, processor count or memory size differs from the checkpoint",
			Regenerated: "the kubelet", Source: "bottlerocket #1465, talos #7504, kubernetes #84333",
		},
		{
			ID: "kubelet-checkpoints", Phase: rule.State, Groups: g, Verb: plan.Remove,
			Paths: []string{
				rule.KubeletDir + "/pod_status_manager_state", rule.KubeletDir + "/allocated_pods_state",
				rule.KubeletDir + "/actuated_pods_state", rule.KubeletDir + "/graceful_node_shutdown_state",
				rule.KubeletDir + "/checkpoints/*", rule.KubeletDir + "/device-plugins/*",
			}, Owner: "kubelet",
			Why:         "the checkpoints reserve resources for pods and devices that no longer exist; a corrupt checkpoint stops the kubelet",
			Regenerated: "the kubelet", Source: kubeletFiles,
		},
		{
			ID: "kubelet-sockets", Phase: rule.State, Groups: g, Verb: plan.Remove,
			Paths: []string{
				rule.KubeletDir + "/plugins/*", rule.KubeletDir + "/plugins_registry/*", rule.KubeletDir + "/pod-resources/*", rule.KubeletDir + "/pods-api/*",
			}, Owner: "kubelet and its plugins",
			Why: "no program listens on these sockets any more", Regenerated: "the kubelet and its plugins", Source: kubeletFiles,
		},
		{
			ID: "kubelet-unfinished", Phase: rule.State, Groups: g, Verb: plan.Remove,
			Paths: []string{
				rule.KubeletDir + "/.[0-9]*", rule.KubeletDir + "/.tmp-graceful_node_shutdown_state*", rule.KubeletDir + "/dra_health_state.tmp*",
				rule.KubeletDir + "/tmpfs-noswap-test-*",
			}, Owner: "kubelet",
			Why:         "a kubelet that was killed while it wrote a checkpoint leaves half a file with the old node's state",
			Regenerated: "nothing", Source: "kubernetes: pkg/kubelet/util/store, nodeshutdown/storage.go, cm/dra/healthinfo.go",
		},
		{
			ID: "kubelet-image-records", Phase: rule.State, Groups: append(g, "secrets"), Verb: plan.Remove,
			Paths: []string{rule.KubeletDir + "/image_manager/*"}, Owner: "kubelet 1.35 and newer",
			Why:         "the records name and hash the old cluster's Secrets that pulled images, and force the new cluster's pods to pull these images again",
			Regenerated: "the kubelet, which treats images without a record as preloaded", Source: "kubernetes KEP-2535, pkg/kubelet/images/pullmanager",
		},
		{
			ID: "kubelet-pods", Phase: rule.State, Groups: g, Verb: plan.Remove,
			Paths: []string{rule.KubeletDir + "/pods/*", rule.KubeletDir + "/volumes/*", rule.KubeletDir + "/volumeplugins-state/*"}, Owner: "kubelet",
			Why:         "the folders contain the old cluster's ConfigMaps, tokens and emptyDirs as plain files",
			Regenerated: "the kubelet", Source: kubeletFiles,
		},
		{
			ID: "kubelet-registry-credentials", Phase: rule.State, Groups: append(g, "secrets"), Verb: plan.Remove,
			Paths: []string{rule.KubeletDir + "/config.json", rule.KubeletDir + "/.dockercfg", rule.KubeletDir + "/.docker/config.json"}, Owner: "an administrator",
			Why: "every node would pull images with these registry credentials", Regenerated: "nothing", Source: kubeletFiles,
		},
		{
			ID: "kubelet-unknown", Phase: rule.State, Groups: g, Verb: rule.Report,
			Paths: []string{rule.KubeletDir + "/*"}, Owner: "unknown",
			Why:         "no rule covers this file; check whether it is state of the old cluster; kubeadm's config.yaml is removed",
			Regenerated: "kubeadm", Source: kubeletFiles,
			Look: unknownKubeletFiles,
		},
		{
			ID: "pod-volumes", Phase: rule.State, Groups: append(g, "volumes"), Verb: rule.Report,
			Paths: []string{
				"/var/lib/longhorn", "/var/lib/rook", "/var/openebs", "/var/local/openebs", "/var/local/mayastor", "/opt/local-path-provisioner",
				"/var/lib/rancher/k3s/storage", "/var/lib/rancher/rke2/storage", "/var/lib/ceph", "/var/lib/osd", "/etc/pwx", "/var/lib/storageos",
				"/var/lib/linstor", "/var/lib/linstor.d", "/var/lib/drbd.d", "/var/lib/glusterd", "/var/lib/heketi", "/var/jfsCache",
			}, Owner: "Longhorn, Rook, Ceph, OpenEBS, Portworx, LINSTOR, Gluster, local-path-provisioner",
			Why:         "every node would carry the data of the old cluster's volumes; only the owner can decide to delete it",
			Regenerated: "nothing", Source: "the provisioners' documentation",
			Look: volumesOfPods,
		},
		{
			ID: "cni-config", Phase: rule.State, Groups: []string{"network", "cni"}, Verb: plan.Remove,
			Paths: []string{"/etc/cni/net.d/*"}, Owner: "the CNI plugin's daemon",
			Why:         "an old configuration makes the node Ready before its network plugin runs, and its pods fail; a file of a package stays",
			Regenerated: "the CNI plugin's daemon", Source: "amazon-vpc-cni-k8s",
			NeverOwned: daemonsCNI,
		},
		{
			ID: "cni-state", Phase: rule.State, Groups: []string{"network", "cni"}, Verb: plan.Empty,
			Paths: []string{"/var/lib/cni"}, Owner: "CNI plugins",
			Why:         "leases of deleted pods use up the address range; with no free address, no pod starts",
			Regenerated: "CNI plugins", Source: "amazon-eks-ami #1912",
		},
		{
			ID: "cni-node-name", Phase: rule.State, Groups: []string{"network", "cni", "identity"}, Verb: plan.Remove,
			Paths: []string{
				"/var/lib/calico/*", "/var/lib/cilium/*", "/var/lib/weave/*", "/etc/openvswitch/*.db", "/etc/openvswitch/.conf.db.~lock~", "/etc/openvswitch/system-id.conf",
				"/var/lib/openvswitch/*", "/etc/origin/openvswitch/*", "/etc/origin/ovn/*", "/etc/ovn/*", "/var/lib/ovn/*", "/var/lib/kube-router/*",
				"/etc/calico/*", "/etc/cilium/*", "/etc/flannel/*", "/etc/kube-flannel/*",
			}, Owner: "Calico, Cilium, Flannel, kube-router, Weave Net, Open vSwitch (Antrea, OVN)",
			Why:         "pods of the new node would get the old node's name and addresses, and two switches would have the same ID",
			Regenerated: "the CNI plugin's daemon", Source: "calico: /var/lib/calico/nodename; weave #2427; ovs-ctl(8)",
		},
	}
}

// daemonsCNI are the files that daemons of CNI plugins write, and no package.
var daemonsCNI = []string{
	"/etc/cni/net.d/10-aws.conflist*", "/etc/cni/net.d/aws.conf", "/etc/cni/net.d/*calico*", "/etc/cni/net.d/*cilium*", "/etc/cni/net.d/*flannel*",
	"/etc/cni/net.d/*multus*", "/etc/cni/net.d/*ovn*", "/etc/cni/net.d/*weave*", "/etc/cni/net.d/*antrea*", "/etc/cni/net.d/whereabouts.d",
}

func volumesOfPods(d *rule.Draft) {
	for _, dir := range d.Paths {
		if len(d.Glob(dir+"/*")) > 0 {
			d.Find(dir, "volumes of pods are in this folder: move the data that you need, remove the rest")
		}
	}
}

// knownToRules reports whether a rule covers an entry of the kubelet's folder,
// or whether the entry is the folder seccomp, whose profiles pods refer to.
func knownToRules(entry string) bool {
	for _, r := range All() {
		for _, p := range r.Paths {
			rest, below := strings.CutPrefix(p, rule.KubeletDir+"/")
			first, _, _ := strings.Cut(rest, "/")
			if known, err := path.Match(first, entry); below && strings.Trim(first, "*") != "" && known && err == nil {
				return true
			}
		}
	}
	return entry == "seccomp"
}

func unknownKubeletFiles(d *rule.Draft) {
	joined := kubeadm.there(d)
	for _, n := range d.Glob(d.Paths...) {
		switch base := path.Base(n); {
		case host.IsTemporary(base):
			d.Remove(n, "a run that was killed left it")
		case base == "config.yaml" && joined:
			d.Remove(n, "kubeadm wrote it for the old cluster")
		case !knownToRules(base):
			d.Find(n, "no rule covers this file: remove it by hand if it is state of the old cluster")
		}
	}
}

// unmountBelow unmounts everything below the row's folders, the deepest mount first.
// On an image root it only reports the mounts, because the image does not own
// them; rules that would have to cross them fail.
func unmountBelow(d *rule.Draft) {
	for _, dir := range d.Tops() {
		mounts, err := d.Host.Files.MountsBelow(dir)
		d.Failed(err)
		for _, m := range mounts {
			d.Act(plan.Action{Verb: plan.Unmount, Target: m.Path, Reason: m.Type + " of " + m.Source + " is mounted there",
				Do: func(context.Context, plan.Progress) error { return d.Host.Unmount(m.Path) }})
		}
	}
}

// membershipRules are the rules for a machine's identity in other systems:
// domains, subscriptions, configuration management and private networks. Where
// possible, each program creates a new identity if it finds none. Steps that
// need a person, such as joining a domain, need the person with a copied
// identity too.
func membershipRules() []rule.Rule {
	g := []string{"identity"}
	return []rule.Rule{
		of(rule.Rule{
			ID: "domain-membership", Phase: rule.Identity, Groups: append(g, "secrets"), Verb: plan.Remove,
			Why:         "every node would act as the builder machine's account in the domain, with its keys and its cache of people",
			Regenerated: "joining the domain", Source: "virt-sysprep: kerberos-hostkeytab, sssd-db-log, samba-db-log, ipa-client",
		},
			program{"realmd, adcli", []string{"/etc/*.keytab", "/etc/krb5.keytab.*", "/etc/security/keytabs/*.keytab", "/var/kerberos/krb5/user/*/client.keytab"}},
			program{"sssd", []string{
				"/var/lib/sss/db/*", "/var/lib/sss/mc/*", "/var/lib/sss/secrets/*", "/var/lib/sss/keytabs/*", "/var/lib/sss/gpo_cache/*", "/var/lib/sss/deskprofile/*", "/var/log/sssd/*",
				"/var/lib/sss/pubconf/kdcinfo.*", "/var/lib/sss/pubconf/kpasswdinfo.*", "/var/lib/sss/pubconf/known_hosts", "/var/lib/sss/pubconf/krb5.include.d/*",
			}},
			program{"Samba", []string{"/var/lib/samba/*.tdb", "/var/lib/samba/private/*", "/var/lib/samba/lock/*.tdb", "/var/cache/samba/*", "/etc/samba/secrets.tdb"}},
			program{"ipa-client", []string{"/var/lib/ipa-client/sysrestore/*", "/var/lib/ipa-client/pki/*", "/etc/pki/ca-trust/source/ipa.p11-kit", "/etc/ipa/default.conf", "/etc/ipa/ca.crt", "/etc/ipa/nssdb/*"}},
			program{"certmonger", []string{"/var/lib/certmonger/requests/*", "/var/lib/certmonger/local/*"}},
			program{"gssproxy", []string{"/var/lib/gssproxy/clients/*", "/var/lib/gssproxy/rcache/*"}},
			program{"Kerberos accounts", []string{"~/.k5login", "~/.k5users"}},
		),
		of(rule.Rule{
			ID: "subscription", Phase: rule.Identity, Groups: append(g, "secrets"), Verb: plan.Remove,
			Why:         "all nodes would be one subscribed system, with the builder machine's certificates",
			Regenerated: "a new registration; certificates for the cloud's own update servers are in other folders and stay",
			Source:      "virt-sysprep: rh-subscription-manager, rhn-systemid; insights-client --unregister; pro detach; Landscape: cloned computers",
		},
			program{"subscription-manager", []string{"/etc/pki/consumer/*", "/etc/pki/entitlement/*", "/etc/rhsm/facts/katello.facts", "/etc/yum.repos.d/redhat.repo", "/var/lib/rhsm/facts/*", "/var/lib/rhsm/cache/*", "/var/lib/rhsm/packages/*", "/etc/sysconfig/rhn/systemid", "/etc/sysconfig/rhn/osad-auth.conf"}},
			program{"insights-client", []string{
				"/etc/insights-client/machine-id", "/etc/insights-client/.registered", "/etc/insights-client/.unregistered", "/etc/insights-client/.lastupload",
				"/etc/insights-client/.cache*", "/etc/insights-client/.last-upload.results", "/etc/redhat-access-insights/machine-id", "/etc/redhat-access-insights/.registered", "/var/lib/insights/*.json", "/var/cache/insights/*",
			}},
			program{"Ubuntu Pro", []string{
				"/var/lib/ubuntu-advantage/private/*", "/var/lib/ubuntu-advantage/machine-access-*.json", "/var/lib/ubuntu-advantage/machine-token.json", "/var/lib/ubuntu-advantage/jobs-status.json",
				"/var/lib/ubuntu-advantage/machine-id", "/var/lib/ubuntu-advantage/status.json", "/etc/machine-token", "/etc/apt/auth.conf.d/90ubuntu-advantage",
				"/var/snap/canonical-livepatch/*/machine-token",
			}},
			program{"Landscape", []string{"/var/lib/landscape/client/*.bpickle*", "/var/lib/landscape/client/messages/*", "/var/lib/landscape/client/*.database", "/var/lib/landscape/client/hash-id-databases/*", "/var/lib/landscape/client/package/*", "/var/lib/landscape/landscape-sysinfo.cache"}},
			program{"smolt", []string{"/etc/smolt/uuid", "/etc/smolt/hw-uuid", "/etc/sysconfig/hw-uuid"}},
		),
		of(rule.Rule{
			ID: "managed-node", Phase: rule.Identity, Groups: append(g, "secrets"), Verb: plan.Remove,
			Why:         "every node would be the builder machine for its configuration server, with the same key, name and cached data",
			Regenerated: "the agent, which requests a new certificate", Source: "virt-sysprep: puppet-data-log; Salt, preseed and minion_id; Chef, client.pem and file_backup_path",
		},
			program{"Puppet", []string{
				"/etc/puppetlabs/puppet/ssl/*", "/etc/puppet/ssl/*", "/var/lib/puppet/ssl/*", "/var/lib/puppet/state/*", "/var/lib/puppet/client_data/*", "/var/lib/puppet/client_yaml/*", "/var/lib/puppet/clientbucket/*", "/var/lib/puppet/reports/*", "/var/lib/puppet/yaml/*", "/var/lib/puppet/facts/*",
				"/opt/puppetlabs/puppet/cache/state/*", "/opt/puppetlabs/puppet/cache/client_data/*",
				"/opt/puppetlabs/puppet/cache/client_yaml/*", "/opt/puppetlabs/puppet/cache/clientbucket/*", "/opt/puppetlabs/puppet/cache/reports/*",
				"/var/cache/puppet/state/*", "/var/cache/puppet/client_data/*", "/var/cache/puppet/clientbucket/*",
			}},
			program{"Chef, Cinc", []string{
				"/etc/chef/client.pem", "/var/chef/backup/*", "/var/chef/cache/*", "/var/chef/reports/*", "/var/lib/chef/backup/*", "/var/cache/chef/*",
				"/etc/cinc/client.pem", "/var/cinc/backup/*", "/var/cinc/cache/*",
			}},
			program{"Salt", []string{
				"/etc/salt/pki/minion/minion.pem", "/etc/salt/pki/minion/minion.pub", "/etc/salt/minion_id", "/var/cache/salt/minion/*", "/var/lib/salt/pki/minion/minion.pem", "/var/lib/salt/pki/minion/minion.pub",
				"/etc/venv-salt-minion/pki/minion/minion.pem", "/etc/venv-salt-minion/pki/minion/minion.pub", "/etc/venv-salt-minion/minion_id", "/var/cache/venv-salt-minion/minion/*",
			}},
			program{"CFEngine, Rudder", []string{"/var/cfengine/ppkeys/localhost.*", "/var/rudder/cfengine-community/ppkeys/localhost.*", "/opt/rudder/etc/uuid.hive"}},
			program{"AWS CodeDeploy, Amazon ECS", []string{"/opt/codedeploy-agent/deployment-root/*", "/etc/codedeploy-agent/conf/codedeploy.onpremises.yml", "/var/lib/ecs/data/*"}},
		),
		of(rule.Rule{
			ID: "mesh-identity", Phase: rule.Identity, Groups: append(g, "secrets", "network"), Verb: plan.Remove,
			Why:         "each node that starts would take over the builder machine's name in the private network from the node before",
			Regenerated: "joining again with a new token", Source: "the programs' own documentation",
		},
			program{"Tailscale", []string{"/var/lib/tailscale/*", "/var/cache/tailscale/*"}},
			program{"ZeroTier", []string{"/var/lib/zerotier-one/identity.*", "/var/lib/zerotier-one/authtoken.secret"}},
			program{"NetBird", []string{"/var/lib/netbird/*", "/etc/netbird/config.json"}},
			program{"cloudflared", []string{"/etc/cloudflared/*.json", "/etc/cloudflared/cert.pem", "~/.cloudflared"}},
			program{"Okta Advanced Server Access", []string{"/var/lib/sftd/*"}},
			program{"Teleport", []string{"/var/lib/teleport/host_uuid", "/var/lib/teleport/proc/*", "/var/lib/teleport/log/*"}},
			program{"SPIRE", []string{"/var/lib/spire/agent/*", "/opt/spire/data/agent/*"}},
			program{"Consul", []string{"/opt/consul/node-id", "/var/lib/consul/node-id", "/opt/consul/serf/*", "/var/lib/consul/serf/*", "/opt/consul/checks/*", "/var/lib/consul/checks/*", "/opt/consul/services/*", "/var/lib/consul/services/*", "/opt/consul/raft/*", "/var/lib/consul/raft/*"}},
			program{"Nomad", []string{
				"/opt/nomad/client/client-id", "/opt/nomad/client/secret-id", "/opt/nomad/client/state.db", "/opt/nomad/data/client/client-id", "/opt/nomad/data/client/secret-id", "/opt/nomad/data/client/state.db",
				"/var/lib/nomad/client/client-id", "/var/lib/nomad/client/secret-id", "/var/lib/nomad/client/state.db", "/opt/nomad/alloc/*", "/opt/nomad/data/alloc/*", "/var/lib/nomad/alloc/*",
			}},
		),
	}
}
