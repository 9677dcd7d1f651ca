package scrub

import (
	"path"
	"slices"
	"strings"

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
		(Rule{
			ID: "engine-containers", Phase: State, Groups: g,
			Why:         "containers and volumes keep the old cluster's environments, Secrets and data; images alone may be part of the image and stay",
			Regenerated: "nothing", Source: "docker system prune, podman system reset",
		}).reports(engineContainers),
	}
}

// leftover is state that only its program or a person can remove.
type leftover struct {
	program string
	// paths are patterns; a match is a finding.
	paths []string
	// but are base names of matches that are no finding.
	but []string
	// says reports whether a file has the leftover; nil reports every match.
	says func(text []byte) bool
	// advice says what to do.
	advice string
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

func pathsOf(all []leftover) []string {
	var paths []string
	for _, l := range all {
		paths = append(paths, l.paths...)
	}
	return paths
}

// ofWhatStays returns the rule without findings about files that other rules remove.
func (r Rule) ofWhatStays() Rule {
	look := r.look
	r.look = func(d *draft) {
		look(d)
		d.answer.Findings = slices.DeleteFunc(d.answer.Findings, func(f plan.Finding) bool { return d.taken.has(f.Target) })
	}
	return r
}

// reports returns the rule with the paths of these leftovers, and with their
// programs as owners. It reports every match.
func (r Rule) reports(all []leftover) Rule {
	var owners []string
	for _, l := range all {
		if !slices.Contains(owners, l.program) {
			owners = append(owners, l.program)
		}
	}
	r.Verb, r.Paths, r.Owner = Report, pathsOf(all), strings.Join(owners, ", ")
	r.look = func(d *draft) {
		for _, l := range all {
			for _, pattern := range l.paths {
				for _, name := range d.matching(pattern) {
					if l.in(d, name) {
						d.find(name, "state of "+l.program+" on the builder machine: "+l.advice)
					}
				}
			}
		}
	}
	return r
}

// in reports whether a match is the leftover.
func (l leftover) in(d *draft, name string) bool {
	if l.says == nil {
		return !slices.Contains(l.but, path.Base(name))
	}
	text := d.small(name)
	return len(text) > 0 && l.says(text)
}
