package rules

import (
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
	"github.com/eksnode/packer-plugin-eksnode/scrub/secrets"
)

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
		removes := func(r row) bool { return slices.Contains(r.Groups, "bootstrap") && rule.Kept(r.Paths, name) }
		if !slices.Contains(kubernetesFolders, path.Base(name)) && !slices.ContainsFunc(rows(), removes) {
			d.Find(name, "no rule covers this file of a machine with kubeadm: remove it by hand if it belongs to the "+
				"old cluster")
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
	return len(name) >= 8 && strings.ContainsAny(name, ".:") && !strings.HasPrefix(name, "127.") &&
		!strings.HasPrefix(name, "localhost") && !strings.HasPrefix(name, "kubernetes.default")
}
