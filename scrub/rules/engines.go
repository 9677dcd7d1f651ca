package rules

import (
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// engineRules are the rules for container engines other than containerd, and
// for stores of containerd that other programs own.
func engineRules() []rule.Rule {
	g := []string{"engines"}
	return []rule.Rule{
		{
			ID: "engine-identity", Phase: rule.State, Groups: append(g, "identity", "secrets"), Verb: plan.Remove,
			Paths: []string{
				"/var/lib/docker/swarm/*", "/var/lib/docker/engine-id", "/var/lib/docker/network/files/*", "/var/lib/docker/tmp/*", "/etc/docker/key.json",
			}, Owner: "dockerd",
			Why:         "every node would be the builder machine for a swarm, with its keys, and would keep addresses of removed containers",
			Regenerated: "dockerd, when it starts", Source: "moby: daemon/id.go, libnetwork/datastore, swarm state in raft",
		},
		reports(rule.Rule{
			ID: "engine-containers", Phase: rule.State, Groups: g,
			Why:         "containers and volumes keep the old cluster's environments, Secrets and data; images alone may be part of the image and stay",
			Regenerated: "nothing", Source: "docker system prune, podman system reset",
		}, engineContainers),
	}
}

var engineContainers = []leftover{
	{program: "Docker", paths: []string{"/var/lib/docker/containers/*"}, advice: "docker rm --force --volumes $(docker ps --all --quiet)"},
	{program: "Docker", paths: []string{"/var/lib/docker/volumes/*"}, but: []string{"metadata.db", "backingFsBlockDev"}, advice: "docker volume prune --all --force"},
	{program: "Podman or CRI-O", paths: []string{"/var/lib/containers/storage/*-containers/*", "~/.local/share/containers/storage/*-containers/*"}, but: []string{"containers.json", "containers.lock", "volatile-containers.json"}, advice: "podman rm --all --force, or crictl rmp --all --force"},
	{program: "Podman", paths: []string{"/var/lib/containers/storage/volumes/*", "~/.local/share/containers/storage/volumes/*"}, advice: "podman volume prune --force"},
	{program: "Podman", paths: []string{"/var/lib/containers/storage/secrets/*", "~/.local/share/containers/storage/secrets/*"}, advice: "podman secret rm --all"},
	{program: "Docker without root", paths: []string{"~/.local/share/docker/containers/*", "~/.local/share/docker/volumes/*/_data"}, advice: "docker system prune --all --volumes --force"},
	{program: "nerdctl", paths: []string{"/var/lib/nerdctl/*/containers/*/*", "/var/lib/nerdctl/*/volumes/*/*"}, advice: "nerdctl system prune --all --volumes --force"},
	{program: "k3s or RKE2", paths: []string{"/var/lib/rancher/*/agent/containerd/io.containerd.grpc.v1.cri/*/*", "/var/lib/rancher/*/agent/containerd/io.containerd.runtime.v2.task/*/*"}, advice: "k3s-killall.sh or rke2-killall.sh, then remove the folder agent/containerd"},
	{program: "k0s", paths: []string{"/var/lib/k0s/containerd/io.containerd.grpc.v1.cri/*/*", "/var/lib/k0s/containerd/io.containerd.runtime.v2.task/*/*"}, advice: "k0s reset"},
	{program: "MicroK8s", paths: []string{"/var/snap/microk8s/*/certs", "/var/snap/microk8s/*/credentials", "/var/snap/microk8s/*/var/kubernetes/backend"}, advice: "microk8s leave, then snap remove --purge microk8s"},
	{program: "LXD", paths: []string{"/var/snap/lxd/common/lxd/containers/*", "/var/snap/lxd/common/lxd/virtual-machines/*", "/var/lib/lxd/containers/*", "/var/lib/lxc/*/rootfs"}, advice: "lxc delete --force"},
}
