package scrub

import (
	"context"
	"path"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// engineRules are the rules for container engines other than containerd, and
// for stores of containerd that other programs own.
func engineRules() []Rule {
	g := []string{"engines"}
	return []Rule{
		{
			ID: "engine-identity", Phase: State, Groups: append(g, "identity", "secrets"), Verb: plan.Remove,
			Paths: []string{
				"/var/lib/docker/swarm/*", "/var/lib/docker/engine-id", "/var/lib/docker/network/files/*", "/var/lib/docker/tmp/*", "/etc/docker/key.json",
			}, Owner: "dockerd",
			Why:         "every node would be the builder machine for a swarm, with its keys, and would keep addresses of removed containers",
			Regenerated: "dockerd, when it starts", Source: "moby: daemon/id.go, libnetwork/datastore, swarm state in raft",
		},
		{
			ID: "engine-containers", Phase: State, Groups: g, Verb: Report,
			Paths: pathsOf(engineContainers), Owner: "dockerd, Podman, CRI-O, nerdctl, k3s, RKE2, k0s, MicroK8s, LXD",
			Why:         "containers and volumes keep the old cluster's environments, Secrets and data; images alone may be part of the image and stay",
			Regenerated: "nothing", Source: "docker system prune, podman system reset",
			Find: reportEach(engineContainers),
		},
	}
}

// leftover is state that only its program or a person can remove.
type leftover struct {
	program string
	// paths are patterns; a match is a finding.
	paths []string
	// but are base names of matches that are no finding.
	but []string
	// advice says what to do.
	advice string
}

// engineContainers are the containers and volumes in the stores of engines.
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

// pathsOf are the paths of all leftovers.
func pathsOf(all []leftover) []string {
	var paths []string
	for _, l := range all {
		paths = append(paths, l.paths...)
	}
	return paths
}

// reportEach reports every match of every leftover.
func reportEach(all []leftover) func(context.Context, *host.Host) (plan.Answer, error) {
	return func(_ context.Context, h *host.Host) (plan.Answer, error) {
		var answer plan.Answer
		for _, l := range all {
			patterns, err := places(h, l.paths)
			if err != nil {
				return plan.Answer{}, err
			}
			for _, p := range patterns {
				names, foreign, err := p.names(h)
				if err != nil {
					return plan.Answer{}, err
				}
				answer.Findings = append(answer.Findings, foreignFindings(h, foreign)...)
				for _, name := range names {
					if !slices.Contains(l.but, path.Base(name)) {
						answer.Find(name, "state of "+l.program+" on the builder machine: "+l.advice)
					}
				}
			}
		}
		return answer, nil
	}
}
