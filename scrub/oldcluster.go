package scrub

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// namingServers are the files of a node that name its API server.
var namingServers = []string{
	kubeletDir + "/kubeconfig", kubeletDir + "/bootstrap-kubeconfig", "/etc/kubernetes/*.conf", "/etc/rancher/*/*.yaml", "/var/lib/rancher/*/agent/*.kubeconfig",
}

var serverOf = regexp.MustCompile(`(?m)(?:^|[\s{,"'])server["']?\s*:\s*["']?(https?://[^\s"'},]+)`)

// clusterHosts returns the names and addresses of the API servers in the
// machine's kubeconfigs. A scrub removes the kubeconfigs, and its audit searches
// other files for these hosts.
func clusterHosts(h *host.Host) ([]string, error) {
	names, _, err := matching(h, namingServers)
	if err != nil {
		return nil, fmt.Errorf("listing the API servers of this machine: %w", err)
	}
	var hosts []string
	for _, name := range names {
		text, err := regularContent(h, name)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, serversIn(string(text))...)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts), nil
}

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
	if slices.ContainsFunc(hostPatterns, func(p pattern) bool { return p.re().MatchString(name) }) {
		return false
	}
	return len(name) >= 8 && strings.ContainsAny(name, ".:") && !strings.HasPrefix(name, "127.") && !strings.HasPrefix(name, "localhost") && !strings.HasPrefix(name, "kubernetes.default")
}
