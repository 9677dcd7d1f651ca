package scrub

import (
	"context"
	"fmt"
	"io/fs"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// inspectRules are what an audit asks besides: what no rule may remove,
// because only a person knows whether it is meant to be there.
func inspectRules() []Rule {
	return []Rule{
		{
			ID: "secrets-left", Phase: Inspect, Groups: []string{"secrets"}, Verb: Report,
			Paths: secretPlaces, Owner: "anybody",
			Why:         "keys, tokens and passwords in an image are everybody's who may start it",
			Regenerated: "nothing", Source: "AWS: guidelines for shared Linux AMIs",
			Search: secretsLeft,
		},
		{
			ID: "host-ids-left", Phase: Inspect, Groups: []string{"identity"}, Verb: Report,
			Paths: []string{"/etc/**", "/var/lib/**"}, Owner: "anybody",
			Why:         "an instance id or the machine's own UUID in a file makes every node claim to be the build machine",
			Regenerated: "its owner", Source: "amazon-eks-ami nodeadm, udev-net-manager",
			Search: hostIDsLeft,
		},
		{
			ID: "run-left", Phase: Inspect, Groups: []string{"kubelet", "network"}, Verb: Report,
			Paths: []string{"/run/**"}, Owner: "daemons, the VPC CNI",
			Why:         "what lies in /run is another boot's (leases such as aws-node/ipam.json); it is hidden at boot but in the image all the same",
			Regenerated: "every boot", Source: "file-hierarchy(7), amazon-vpc-cni-k8s",
			Find: runLeft,
		},
		{
			ID: "not-a-node", Phase: Inspect, Groups: []string{"assets"}, Verb: Report,
			Paths: []string{manifest.Path}, Owner: "eksnode, or whoever made the image",
			Why:         "a machine without eksnode's manifest is a node where it has a kubelet, a container runtime and a bootstrap, as Amazon's own AMIs; an image of any other machine joins nothing",
			Regenerated: "provisioning", Source: "amazon-eks-ami: nodeadm, bootstrap.sh",
			Find: notANode,
		},
		{
			ID: "can-join", Phase: Inspect, Groups: []string{"assets"}, Verb: Report,
			Paths: []string{manifest.Path}, Owner: "eksnode",
			Why:         "an image that lacks a part, or carries another than its manifest says, joins nothing",
			Regenerated: "provisioning again", Source: "the image's own manifest",
			Find: canJoin,
		},
		{
			ID: "build-paths", Phase: Inspect, Groups: []string{"assets", "identity"}, Verb: Report,
			Paths: []string{manifest.Path, manifest.SBOMPath}, Owner: "eksnode",
			Why:         "a manifest or a bill of materials that names files of the Packer host tells every user of the image who built the image, and where; and nobody else finds anything there",
			Regenerated: "provisioning again", Source: "the image's own manifest",
			Find: buildPaths,
		},
		{
			ID: "kernel-modules", Phase: Inspect, Groups: []string{"assets", "network"}, Verb: Report,
			Paths: []string{moduleFolder}, Owner: "the distribution's kernel packages",
			Why:         "releases split modules off their kernels: without those of kube-proxy and the VPC CNI the node joins, its rules fail one by one, and pods have no network",
			Regenerated: "the package manager", Source: "kops #18724, amazon-vpc-cni-k8s #1847",
			Find: modulesMissing,
		},
		{
			ID: "kernel-settings", Phase: Inspect, Groups: []string{"assets", "network"}, Verb: Report,
			Paths: []string{"/etc/sysctl.d/*.conf", "/usr/lib/sysctl.d/*.conf"}, Owner: "hardened base images, administrators",
			Why:         "files that are read later than a node's own take back what the kubelet insists on, or what pods need: hardening turns forwarding off",
			Regenerated: "nothing", Source: "sysctl.d(5), CIS benchmarks' net.ipv4.ip_forward",
			Find: sysctlsAgainst,
		},
		{
			ID: "host-firewall", Phase: Inspect, Groups: []string{"network"}, Verb: Report,
			Paths: []string{"/etc/systemd/system/*.wants/{firewalld,ufw,nftables,iptables,netfilter-persistent}.service"}, Owner: "firewalld, ufw, hardened base images",
			Why:         "a firewall that comes up at boot and forwards nothing lets the node join, and its pods reach nobody: security groups and network policies are what filters on EKS",
			Regenerated: "nothing", Source: "kubeadm's preflight, amazon-vpc-cni-k8s #743",
			Find: firewallsOn,
		},
		{
			ID: "images-there", Phase: Inspect, Groups: []string{"assets", "containerd"}, Verb: Report,
			Paths: []string{"/var/lib/containerd"}, Owner: "containerd",
			Why:         "an image that the manifest records and containerd has lost, or that is not pinned, is pulled again by every node; without the pause image no pod starts",
			Regenerated: "provisioning again", Source: "amazon-eks-ami #2061 #2066 #2122",
			Find: imagesLost,
		},
	}
}

// runLeft reports files below /run of an image that is not running.
func runLeft(ctx context.Context, h *host.Host) (plan.Answer, error) {
	if h.IsLive() {
		return plan.Answer{}, nil
	}
	var answer plan.Answer
	for _, dir := range []string{"/run", "/var/run"} {
		if st, err := h.Files.Lstat(dir); err != nil || !st.IsDir() { // a link leads to the other
			if err = ignoreMissing(err); err != nil {
				return plan.Answer{}, err
			}
			continue
		}
		foreign, err := h.Files.Walk(ctx, dir, dir, func(e host.Entry, err error) error {
			if err == nil && !e.IsDir() && e.Mode()&fs.ModeSymlink == 0 {
				answer.Find(e.Path, "it is of a boot that is over: remove it")
			}
			return err
		})
		if err != nil {
			return plan.Answer{}, err
		}
		answer.Findings = append(answer.Findings, foreignFindings(h, foreign)...)
	}
	return answer, nil
}

// canJoin compares the image with its manifest: every part is there and is what
// was recorded. An image that others built has no manifest, and is asked only
// for the programs that every node needs.
func canJoin(ctx context.Context, h *host.Host) (plan.Answer, error) {
	m, err := manifest.Load(h)
	if err != nil {
		return plan.Answer{}, err
	}
	if m == nil {
		return programsThere(h)
	}
	var answer plan.Answer
	files := slices.Clone(m.Files)
	for _, a := range m.Assets {
		files = append(files, a.Files...)
	}
	for _, f := range files {
		reason, err := differs(ctx, h, f)
		if err != nil {
			return plan.Answer{}, err
		}
		if reason != "" {
			answer.Find(f.Path, reason+": provision again")
		}
	}
	kubelet, ok := m.Asset("kubelet")
	if ok && kubelet.Version != m.KubernetesVersion {
		answer.Find("kubelet", fmt.Sprintf("it is %s, but the image is for Kubernetes %s", kubelet.Version, m.KubernetesVersion))
	}
	for _, p := range m.Packages {
		if p.Version == "" {
			answer.Find(p.Name, "the manifest records no version of this package: provision again")
		}
	}
	return answer, nil
}

// differs says how a file is not what the manifest recorded.
func differs(ctx context.Context, h *host.Host, f manifest.File) (string, error) {
	if f.Link != "" {
		target, err := h.Files.ReadlinkIfPossible(f.Path)
		switch {
		case isMissing(err):
			return "it is missing", nil
		case err != nil:
			return "it is no link any more", nil
		case target != f.Link:
			return "it leads to " + target + ", not to " + f.Link, nil
		}
		return "", nil
	}
	st, err := h.Files.Stat(f.Path)
	if isMissing(err) {
		return "it is missing", nil
	}
	if err != nil {
		return "", err
	}
	if st.Size() != f.Size {
		return fmt.Sprintf("it has %d bytes, not the %d that were installed", st.Size(), f.Size), nil
	}
	in, err := h.Files.OpenRegular(f.Path)
	if err != nil {
		return "", err
	}
	got, err := hashFile(ctx, in, f.Path)
	if err == nil && got.SHA256 != f.SHA256 {
		return "its content is not what was installed", nil
	}
	return "", err
}
